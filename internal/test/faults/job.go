package faults

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// Job is one launcher, running or ended. Its ranks inherit its environment, so Mark finds them.
type Job struct {
	Mark    string // NAME=value in the environment of all that belongs to the job
	Out     lab.Output
	Err     lab.Output
	Cmd     *exec.Cmd
	Cluster *lab.Cluster // nil: the job runs here
	Home    string       // the launcher's; the caller's to remove

	stdout *os.File // our end of its stdout
	read   chan struct{}
	ended  chan struct{}
	began  time.Time
	at     time.Time // of the end
	code   int

	canary  string // in the environment of all ranks, and nowhere else
	sampled chan struct{}
	used    usage
	leak    string // where the canary was seen

	mu     sync.Mutex
	guards map[string]bool // by name, of ranks of this machine
}

// Marks makes marks that are unique on this machine. The zero value is ready.
type Marks struct{ last atomic.Int64 }

func (m *Marks) next() string {
	return fmt.Sprintf("FAULT_MARK=%d-%d-%d", os.Getpid(), time.Now().UnixNano(), m.last.Add(1))
}

// Start starts argv on the launcher's side of c, or on this machine if c is nil, with env added.
// "{config}" in an argument stands for the cluster's ssh configuration.
func (m *Marks) Start(ctx context.Context, c *lab.Cluster, env []string, argv ...string) (*Job, error) {
	j := &Job{
		Mark:    m.next(),
		Cluster: c,
		canary:  rand.Text() + rand.Text(),
		ended:   make(chan struct{}),
		sampled: make(chan struct{}),
		read:    make(chan struct{}),
		guards:  map[string]bool{},
	}
	var err error
	if j.Home, err = os.MkdirTemp("", "faults-home-"); err != nil {
		return nil, err
	}
	if err := os.Mkdir(j.temp(), 0o755); err != nil {
		return nil, errors.Join(err, os.RemoveAll(j.Home))
	}
	argv = append([]string(nil), argv...)
	if c == nil {
		j.Cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	} else {
		for i := range argv {
			argv[i] = strings.ReplaceAll(argv[i], "{config}", c.ConfigFile)
		}
		j.Cmd = c.Command(ctx, argv...)
	}
	if j.Cmd.Env == nil {
		j.Cmd.Env = os.Environ()
	}
	j.Cmd.Env = append(append(j.Cmd.Env, j.Mark, "FAULT_CANARY="+j.canary, "HOME="+j.Home, "TMPDIR="+j.temp()), env...)
	j.Cmd.Stderr = &j.Err
	j.Cmd.WaitDelay = 5 * time.Second
	if err := j.start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(j.Home))
	}
	j.began = time.Now()
	go j.wait()
	go j.sample()
	return j, nil
}

// start starts the command with a pipe as its stdout, which CloseOutput can close.
func (j *Job) start() error {
	ours, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer theirs.Close()
	j.stdout = ours
	j.Cmd.Stdout = theirs
	if err := j.Cmd.Start(); err != nil {
		ours.Close()
		return err
	}
	go func() {
		defer close(j.read)
		_, _ = io.Copy(&j.Out, ours)
	}()
	return nil
}

// CloseOutput ends the reader of the launcher's stdout, as "| head" does.
func (j *Job) CloseOutput() { _ = j.stdout.Close() }

func (j *Job) wait() {
	defer close(j.ended)
	err := j.Cmd.Wait()
	j.at = time.Now()
	select {
	case <-j.read:
	case <-time.After(5 * time.Second): // another process holds it
		_ = j.stdout.Close()
		<-j.read
	}
	_ = j.stdout.Close()
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
	case !errors.As(err, &exit):
		j.code = -1
	default:
		j.code = exit.ExitCode()
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			j.code = 128 + int(status.Signal())
		}
	}
}

// temp returns the job's folder for temporary files.
func (j *Job) temp() string { return filepath.Join(j.Home, "tmp") }

// Ended returns a channel that is closed when the launcher has ended.
func (j *Job) Ended() <-chan struct{} { return j.ended }

// Code returns the launcher's exit code as a shell shows it. Call it after the launcher has ended.
func (j *Job) Code() int { return j.code }

// Await waits until ready holds, limit has passed or the job has ended, and reports whether ready
// holds.
func (j *Job) Await(limit time.Duration, ready func() bool) bool {
	for deadline := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		if ready() {
			return true
		}
		select {
		case <-j.ended:
			return ready()
		default:
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// Launcher returns the launcher's process; with namespaces it was nsenter before.
func (j *Job) Launcher() int { return j.Cmd.Process.Pid }

// Processes returns the job's processes without the launcher whose command line contains word ("":
// all). Agents contain "__serve", their guards "__agent".
func (j *Job) Processes(word string) []int {
	var pids []int
	for _, pid := range lab.Processes(j.Mark) {
		if pid == j.Launcher() {
			continue
		}
		j.remember(guardOf(pid))
		if commandHas(pid, word) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (j *Job) remember(guard string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if guard != "" && j.guards != nil {
		j.guards[guard] = true
	}
}

// guardOf returns the guard that a rank's environment names, or "".
func guardOf(pid int) string {
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	for entry := range strings.SplitSeq(string(environ), "\x00") {
		if name, found := strings.CutPrefix(entry, "GORUN_GUARD="); found {
			return name
		}
	}
	return ""
}

// On returns the processes on a host in its own namespaces whose command line contains word.
func (j *Job) On(host, word string) (pids []int) {
	for _, pid := range j.Cluster.Inside(host) {
		if commandHas(pid, word) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func commandHas(pid int, word string) bool { return strings.Contains(command(pid), word) }

// Close kills what is left of the job and removes its home.
func (j *Job) Close() error {
	_ = j.Cmd.Process.Kill()
	<-j.ended
	<-j.sampled
	for _, pid := range lab.Processes(j.Mark) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return os.RemoveAll(j.Home)
}
