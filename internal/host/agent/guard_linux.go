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

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/lookup"
	"github.com/gorun/gorun/internal/host/services"
	"github.com/gorun/gorun/internal/host/warm"
	"github.com/gorun/gorun/internal/net/wire"
)

// guardTimeout is how long the guard waits after the launcher is lost for the agent to exit, which
// happens soon after lostGrace unless it is stopped or hangs.
const guardTimeout = lostGrace + 2*time.Second

// GuardOptions are how a guard starts its agent.
type GuardOptions struct {
	Argv []string    // the agent's command; the guard's name, for Options.Guard, is appended
	Warm *warm.Below // becomes the agent, its own copy's name being appended; nil: the agent is started
	rung contain.Rung
}

// Guard starts the agent with this process's stdin, stdout and stderr, waits for it, kills every
// process that it leaves and returns its exit code, or wire.CodeSweptBase and the signal that
// killed it. It never reads stdin, and only polls it for the launcher's end. A signal that ends ctx
// is passed on to the agent. It changes to the directory that wire.StartDirectory names.
func Guard(ctx context.Context, opts GuardOptions) (code int, err error) {
	lookup.EnterStart()
	if err := contain.BecomeSubreaper(); err != nil {
		return wire.CodeHostFailed, fmt.Errorf("become subreaper: %w", err)
	}
	self, err := contain.Self()
	if err != nil {
		return wire.CodeHostFailed, fmt.Errorf("find the own place in /proc: %w", err)
	}
	cage := contain.Make(self, opts.rung) // made here, so that it is known when the agent has exited
	defer cage.Remove()
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	defer signal.Stop(sigchld)

	// The agent's death signal comes when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	argv := append(slices.Clone(opts.Argv), self.String())
	pid, err := startAgent(argv, opts.Warm)
	if err != nil {
		return wire.CodeHostFailed, fmt.Errorf("start the agent: %w", err)
	}
	// Remove what killed guards and agents have left here, while this agent starts.
	var stale sync.WaitGroup
	stale.Go(func() { cage.KillStale(ctx) })
	defer stale.Wait()
	code = await(ctx, pid, sigchld)
	left := cage.Sweep(sweepTime, func() { reapUntil(pid) })
	if code != 0 { // an agent that ends well has removed it; the search takes long where many files are temporary
		services.RemoveFolder(self)
	}
	if code > wire.CodeSignalBase && len(left) == 0 {
		code += wire.CodeSweptBase - wire.CodeSignalBase
	}
	return code, unkillable(left)
}

// startAgent starts the agent with this process's standard files, in a process group of its own. It
// gets SIGTERM when the calling thread ends.
func startAgent(argv []string, from *warm.Below) (pid int, err error) {
	if from != nil {
		defer from.Close()
		return from.PID, from.BecomeAgent(argv)
	}
	return syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM},
	})
}

// unkillable is the error that processes left cannot be killed, nil if left is empty.
func unkillable(left []contain.Process) error {
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("%d processes cannot be killed, the first of them %d (%s)", len(left), left[0].PID, left[0].Name)
}

// await returns the agent's exit code when it has ended. It kills an agent that goes on too long
// after the launcher is lost.
func await(ctx context.Context, pid int, sigchld <-chan os.Signal) (code int) {
	hangup := make(chan struct{})
	watched := make(chan struct{})
	defer close(watched)
	go func() {
		waitHangup(0, watched)
		close(hangup)
	}()
	var timeout <-chan time.Time
	stopped := ctx.Done()
	poll := time.NewTicker(tickTime) // in case a SIGCHLD is missed
	defer poll.Stop()
	for {
		if code, ended := reapUntil(pid); ended {
			return code
		}
		select {
		case <-sigchld:
		case <-poll.C:
		case <-hangup:
			hangup = nil
			timeout = time.After(guardTimeout)
		case <-timeout:
			_ = syscall.Kill(pid, syscall.SIGKILL) // not reaped yet, so the pid is still the agent's
		case <-stopped:
			stopped = nil
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
	}
}

// waitHangup returns when the other end of fd is closed, or soon after done is closed.
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
			ended = true
			code = status.ExitStatus()
			if status.Signaled() {
				code = wire.SignalCode(status.Signal())
			}
		}
	}
}
