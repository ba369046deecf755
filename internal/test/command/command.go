// Package command starts the built gorun for tests, as users do, and judges how it ends and what it
// leaves.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// binEnv holds the folder of the programs that Main built.
const binEnv = "GORUN_E2E_BIN"

// Main builds gorun, the examples, the lab's programs and what build adds, into a folder that every
// user may enter: the repository may be below a home that only its owner may. It runs the tests in
// that folder and returns the exit status. root is the repository's.
func Main(m *testing.M, root string, build func(dir string) error) int {
	return lab.RunBuilt(m, func(dir string) error {
		return errors.Join(lab.BuildStatic(root, dir, "./cmd/gorun", "./examples/...", "./internal/test/lab/..."),
			build(dir), os.Setenv(binEnv, dir), os.Chdir(dir))
	})
}

// Binary returns the path of a program that Main built.
func Binary(name string) string { return filepath.Join(os.Getenv(binEnv), name) }

// Run is a gorun process, running or ended.
type Run struct {
	Cmd  *exec.Cmd
	Mark string // NAME=value in the environment of everything the run starts
	Out  Output
	Err  Output
	Took time.Duration // from start to end

	t       *testing.T
	started time.Time
}

// Limit is how long a run may take.
const Limit = 60 * time.Second

// Start starts gorun on the launcher's side of c, or on this machine if c is nil.
func Start(t *testing.T, c *lab.Cluster, args ...string) *Run {
	t.Helper()
	return StartIn(t, c, nil, args...)
}

// StartIn is Start with more environment.
func StartIn(t *testing.T, c *lab.Cluster, env []string, args ...string) *Run {
	t.Helper()
	return StartPath(t, c, Binary("gorun"), env, args...)
}

// StartPath is StartIn for a gorun at another path.
func StartPath(t *testing.T, c *lab.Cluster, path string, env []string, args ...string) *Run {
	t.Helper()
	return StartWithin(t, c, Limit, path, env, args...)
}

// StartWithin is StartPath for a run that may take longer than others.
func StartWithin(t *testing.T, c *lab.Cluster, limit time.Duration, path string, env []string, args ...string) *Run {
	t.Helper()
	r := New(t, c, limit, NewMark(t), append([]string{path}, args...)...)
	if c != nil {
		r.Cmd.Env = append(r.Cmd.Env, "GORUN_SSH_CONFIG="+c.ConfigFile)
	}
	r.Cmd.Env = append(append(r.Cmd.Env, "HOME="+t.TempDir()), env...)
	must.OK(t, r.Start())
	return r
}

// NewMark returns a variable for the environment of all that a test starts.
func NewMark(t *testing.T) string {
	return fmt.Sprintf("E2E_MARK=%s-%d-%d", t.Name(), os.Getpid(), time.Now().UnixNano())
}

// New returns a program to start on the launcher's side of c, or on this machine if c is nil. It
// ends after limit, and with the test.
func New(t *testing.T, c *lab.Cluster, limit time.Duration, mark string, argv ...string) *Run {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	r := &Run{t: t, Mark: mark}
	if c == nil {
		r.Cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	} else {
		r.Cmd = c.Command(ctx, argv...)
	}
	r.Cmd.Env = append(os.Environ(), mark)
	r.Cmd.Stdout = &r.Out
	r.Cmd.Stderr = &r.Err
	r.Cmd.WaitDelay = 5 * time.Second
	return r
}

// Start starts a program that New returned.
func (r *Run) Start() error {
	r.started = time.Now()
	return r.Cmd.Start()
}

// Wait waits for the end and returns the exit code as a shell would see it.
func (r *Run) Wait() int {
	r.t.Helper()
	err := r.Cmd.Wait()
	r.Took = time.Since(r.started)
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
	r.t.Fatalf("gorun: %v\n%s", err, r.Err.String())
	return -1
}

// Want waits for the end and checks the exit code, that stderr holds every one of words, and that
// no process is left.
func (r *Run) Want(code int, words ...string) *Run {
	r.t.Helper()
	if got := r.Wait(); got != code {
		r.t.Errorf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", got, code, golden.Clip(r.Out.String()),
			golden.Clip(r.Err.String()))
	}
	r.wantWords(words)
	r.NothingLeft(0)
	return r
}
