package agent

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/agent/services"
	"github.com/gorun/gorun/internal/contain"
	"github.com/gorun/gorun/internal/wire"
)

// guardPatience is how long after the launcher is gone the guard waits for the
// agent to end by itself, which it does soon after lostGrace: a stopped or stuck
// agent never does.
const guardPatience = lostGrace + 2*time.Second

// GuardOptions say what a guard guards.
type GuardOptions struct {
	Argv []string // the agent proper; the guard's name is added, which is for Options.Guard
	rung contain.Rung
}

// Guard starts the agent proper with this process's stdin, stdout and
// stderr, waits for its end, kills all that is left of it and returns its exit
// code. It never reads stdin, only watches it for the launcher's end. A signal
// that ends ctx is passed on to the agent.
func Guard(ctx context.Context, opts GuardOptions) (code int, err error) {
	if err := becomeSubreaper(); err != nil {
		return wire.CodeHostFailed, fmt.Errorf("become subreaper: %w", err)
	}
	self, err := contain.Self()
	if err != nil {
		return wire.CodeHostFailed, fmt.Errorf("find the own place in /proc: %w", err)
	}
	cage := contain.Make(self, opts.rung) // made here, so that it is known when the agent is gone
	defer cage.Remove()
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	defer signal.Stop(sigchld)

	// The agent's death signal comes when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	argv := append(slices.Clone(opts.Argv), self.String())
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM},
	})
	if err != nil {
		return wire.CodeHostFailed, fmt.Errorf("start the agent: %w", err)
	}
	// Of what guards and agents left here that were killed together, while ours begins.
	var stale sync.WaitGroup
	stale.Go(func() { cage.KillStale(ctx) })
	defer stale.Wait()
	code = await(ctx, pid, sigchld)
	left := cage.Sweep(sweepTime, func() { reapUntil(pid) })
	services.RemoveOpenMPI4(self)
	return code, unkillable(left)
}

// unkillable is the error that some processes cannot be killed; nil: there are none.
func unkillable(left []contain.Process) error {
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%d processes cannot be killed, the first of them %d (%s)", len(left), left[0].PID, left[0].Name)
}

// await returns the agent's exit code when it has ended, after killing it if it
// did not end in time once the launcher was gone.
func await(ctx context.Context, pid int, sigchld <-chan os.Signal) (code int) {
	hangup, watched := make(chan struct{}), make(chan struct{})
	defer close(watched)
	go func() {
		waitHangup(0, watched)
		close(hangup)
	}()
	var timeout <-chan time.Time
	stopped := ctx.Done()
	look := time.NewTicker(tickTime) // should a SIGCHLD ever be missed
	defer look.Stop()
	for {
		if code, ended := reapUntil(pid); ended {
			return code
		}
		select {
		case <-sigchld:
		case <-look.C:
		case <-hangup:
			hangup = nil
			timeout = time.After(guardPatience)
		case <-timeout:
			_ = syscall.Kill(pid, syscall.SIGKILL) // not reaped yet, so still ours
		case <-stopped:
			stopped = nil
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

// waitHangup returns when the other end of fd is closed, or soon after done is.
func waitHangup(fd int, done <-chan struct{}) {
	for {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(set, 1000)
		if n > 0 || (err != nil && err != unix.EINTR) {
			return
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// reapUntil collects ended children. ended is true when pid was among them.
func reapUntil(pid int) (code int, ended bool) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || got <= 0 {
			return code, ended
		}
		if got == pid {
			ended, code = true, status.ExitStatus()
			if status.Signaled() {
				code = 128 + int(status.Signal())
			}
		}
	}
}
