package agent

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/net/wire"
)

// toolStart is how a rank starts otherwise than by its program's words. The zero value changes
// nothing.
type toolStart struct {
	Path     string // path of the tool, or ""
	Argv     []string
	Terminal string // value of TERM, as in wire.Tool
	Halt     bool
}

// prepareTools validates the tools of a job and finds their programs on this host. check returns
// the path of the program that argv begins with, for a rank, or why the rank cannot run argv.
func prepareTools(job wire.Job, check func(r wire.Rank, argv []string) (path string,
	err error)) (map[int]toolStart, error) {
	ranks := map[int]wire.Rank{}
	starts := map[int]toolStart{}
	for _, r := range job.Ranks {
		ranks[r.Rank] = r
	}
	for _, t := range job.Tools {
		r, here := ranks[t.Rank]
		if _, twice := starts[t.Rank]; !here || twice || job.Elastic != nil {
			return nil, wire.Refusef(wire.CodeHostFailed, "",
				"rank %d is to have a tool, and is not here, has one, or is elastic", t.Rank)
		}
		s := toolStart{Argv: t.Argv, Terminal: t.Terminal, Halt: t.Halt}
		if len(s.Argv) > 0 {
			var err error
			if s.Path, err = check(r, s.Argv); err != nil {
				return nil, explainTool(t.Rank, err)
			}
		}
		starts[t.Rank] = s
	}
	return starts, nil
}

// explainTool says that the tool of a rank, not its program, is at fault.
func explainTool(rank int, err error) error {
	no := new(wire.Refuse)
	if !errors.As(err, &no) {
		return err
	}
	return &wire.Refuse{Code: no.Code, What: fmt.Sprintf("the tool of rank %d: %s", rank, no.What), Remedy: no.Remedy}
}

// haltChild stops a child before its first instruction. The child has just been started with
// SysProcAttr.Ptrace by this thread, and nobody else waits for children meanwhile. A child that has
// ended is left to its parent.
func haltChild(pid int) error {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return fmt.Errorf("wait for its first instruction: %w", err)
		}
	}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, syscall.PTRACE_DETACH, uintptr(pid), 0,
		uintptr(syscall.SIGSTOP), 0, 0)
	if errno != 0 && errno != syscall.ESRCH { // ESRCH: it has ended
		return fmt.Errorf("leave it stopped: %w", errno)
	}
	return nil
}

// tracePoll is between looks for a debugger.
const tracePoll = 200 * time.Millisecond

// releaseChild calls resume, which sends SIGCONT, when a debugger has attached to a process that
// haltChild stopped: the debugger alone decides from then on when the process runs, also after it
// has detached. pid returns the process while it runs. releaseChild ends with it, or when over is
// closed.
func releaseChild(over <-chan struct{}, pid func() (pid int, running bool), resume func()) {
	seen := false
	for {
		select {
		case <-time.After(tracePoll):
		case <-over:
			return
		}
		number, running := pid()
		if !running {
			return
		}
		switch state, traced := traceState(number); {
		case traced && seen: // the debugger has had time for its own stop
			resume()
			return
		case !traced && state != 'T': // SIGCONT came from elsewhere
			return
		default:
			seen = traced
		}
	}
}

// traceState returns the state of a process, a letter as in proc(5), and whether it has a debugger.
func traceState(pid int) (state byte, traced bool) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if words := process.Field(string(text), "State:"); len(words) > 0 {
		state = words[0][0]
	}
	tracer := process.Field(string(text), "TracerPid:")
	return state, len(tracer) > 0 && tracer[0] != "0"
}
