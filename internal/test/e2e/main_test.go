package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/golden"

	"github.com/gorun/gorun/internal/test/lab"
)

// root is the repository.
var root = func() string {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		panic(err)
	}
	return dir
}()

// testdata returns the path of a file in testdata.
func testdata(name string) string { return root + "/internal/test/e2e/testdata/" + name }

// TestMain builds the programs once and runs the tests in the folder that holds them, which every user may enter:
// the repository may be below a home that only its owner may.
func TestMain(m *testing.M) {
	if os.Getenv(strangerEnv) != "" {
		os.Exit(m.Run())
	}
	os.Exit(lab.RunBuilt(m, func(dir string) error {
		return errors.Join(lab.BuildStatic(root, dir, "./cmd/gorun", "./examples/...", "./internal/test/lab/..."),
			lab.BuildStatic(root, dir+"/container", "./internal/test/e2e/testdata/container/..."),
			os.Setenv("GORUN_E2E_BIN", dir), os.Chdir(dir))
	}))
}

// binary returns the path of a program that TestMain built.
func binary(name string) string { return filepath.Join(os.Getenv("GORUN_E2E_BIN"), name) }

// run is a gorun process, running or ended.
type run struct {
	t       *testing.T
	cmd     *exec.Cmd
	mark    string // NAME=value in the environment of everything the run starts
	out     output
	err     output
	started time.Time
	took    time.Duration
}

// output is a buffer that may be read while a process writes it.
type output struct {
	mu   sync.Mutex
	data []byte
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.data = append(o.data, p...)
	return len(p), nil
}

func (o *output) Bytes() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	return bytes.Clone(o.data)
}

func (o *output) String() string { return string(o.Bytes()) }
func (o *output) Len() int       { return len(o.Bytes()) }

const runLimit = 60 * time.Second

// start starts gorun on the launcher's side of c, or on this machine if c is nil.
func start(t *testing.T, c *lab.Cluster, args ...string) *run {
	t.Helper()
	return startIn(t, c, nil, args...)
}

// startIn is start with more environment.
func startIn(t *testing.T, c *lab.Cluster, env []string, args ...string) *run {
	t.Helper()
	return startPath(t, c, binary("gorun"), env, args...)
}

// startPath is startIn for a gorun at another path.
func startPath(t *testing.T, c *lab.Cluster, path string, env []string, args ...string) *run {
	t.Helper()
	return startWithin(t, c, runLimit, path, env, args...)
}

// startWithin is startPath for a run that may take longer than others.
func startWithin(t *testing.T, c *lab.Cluster, limit time.Duration, path string, env []string, args ...string) *run {
	t.Helper()
	r := command(t, c, limit, newMark(t), append([]string{path}, args...)...)
	if c != nil {
		r.cmd.Env = append(r.cmd.Env, "GORUN_SSH_CONFIG="+c.ConfigFile)
	}
	r.cmd.Env = append(append(r.cmd.Env, "HOME="+t.TempDir()), env...)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// newMark returns a variable for the environment of all that a test starts.
func newMark(t *testing.T) string {
	return fmt.Sprintf("E2E_MARK=%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano())
}

// command returns a program to start on the launcher's side of c, or on this machine if c is nil.
func command(t *testing.T, c *lab.Cluster, limit time.Duration, mark string, argv ...string) *run {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	r := &run{t: t, mark: mark}
	if c == nil {
		r.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	} else {
		r.cmd = c.Command(ctx, argv...)
	}
	r.cmd.Env = append(os.Environ(), mark)
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	r.cmd.WaitDelay = 5 * time.Second
	return r
}

func (r *run) start() error {
	r.started = time.Now()
	return r.cmd.Start()
}

// wait waits for the end and returns the exit code as a shell would see it.
func (r *run) wait() int {
	r.t.Helper()
	err := r.cmd.Wait()
	r.took = time.Since(r.started)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return 128 + int(status.Signal())
		}
		return exit.ExitCode()
	}
	r.t.Fatalf("gorun: %v\n%s", err, r.err.String())
	return -1
}

// want checks the exit code and that stderr holds every one of words.
func (r *run) want(code int, words ...string) *run {
	r.t.Helper()
	if got := r.wait(); got != code {
		r.t.Errorf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", got, code, golden.Clip(r.out.String()), golden.Clip(r.err.String()))
	}
	for _, w := range words {
		if !strings.Contains(r.err.String(), w) {
			r.t.Errorf("stderr lacks %q:\n%s", w, golden.Clip(r.err.String()))
		}
	}
	r.nothingLeft(0)
	return r
}

// besideOthers names subtests that run in parallel: a gorun process may belong to another one.
const besideOthers = "beside-others"

// nothingLeft checks from outside that all processes of the run end within limit.
func (r *run) nothingLeft(limit time.Duration) {
	r.t.Helper()
	if err := r.left(limit); err != nil {
		r.t.Error(err)
	}
}

// left waits until all processes of the run have ended. After limit it returns an error that names those left.
func (r *run) left(limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		left := lab.Processes(r.mark)
		if !strings.Contains(r.t.Name(), "/"+besideOthers+"/") {
			left = append(left, gorunProcesses()...)
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("left %v after the end: %d processes, the first is %q", limit, len(left), procFile(left[0], "cmdline"))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// gorunProcesses returns the processes that run the built gorun: launchers, guards and agents.
func gorunProcesses() (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && exe == binary("gorun") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// procFile returns a file of a process in /proc, or "".
func procFile(pid int, name string) string {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	return string(text)
}

// lines returns the lines of stdout.
func (r *run) lines() []string {
	return strings.FieldsFunc(r.out.String(), func(c rune) bool { return c == '\n' })
}

// wantLines compares the lines of stdout, in any order, with want.
func (r *run) wantLines(want ...string) {
	r.t.Helper()
	got := r.lines()
	slices.Sort(got)
	if !slices.Equal(got, want) {
		r.t.Errorf("got %q, want %q", got, want)
	}
}

// awaitLimit bounds how long a test waits for an event.
const awaitLimit = 20 * time.Second

// await polls until ok, or fails the test.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(awaitLimit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", awaitLimit, what)
		}
	}
}

// step is a line of --json-events, as far as the tests read it.
type step struct {
	Event  string
	Time   time.Time
	Rank   *int
	Code   *int
	CPU    float64 `json:"cpu_seconds"`
	MaxRSS int64   `json:"max_rss"`
	Error  string
	Kind   string
	Epoch  int
	Text   string
	Log    string
}
