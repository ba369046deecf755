package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// strike does one fault. A transient fault is over when it returns.
func (s *Scene) strike(ctx context.Context, j *Job, kind Kind, host string, lasts time.Duration) error {
	signal := func(word string, signals ...syscall.Signal) error { return send(s.victims(j, word, host), signals...) }
	pause := func(word string) error {
		pids := s.victims(j, word, host)
		if err := send(pids, syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(lasts)
		_ = send(pids, syscall.SIGCONT) // a stopped process may have been killed
		return nil
	}
	switch kind {
	case RankKill:
		return signal("rank", syscall.SIGKILL)
	case RankTerm:
		return signal("rank", syscall.SIGTERM)
	case RankHup:
		return signal("rank", syscall.SIGHUP)
	case RankExit:
		return signal("rank", syscall.SIGUSR2)
	case AgentKill:
		return signal("agent", syscall.SIGKILL)
	case GuardKill:
		return signal("guard", syscall.SIGKILL)
	case BothKill:
		return send(append(s.victims(j, "guard", host), s.victims(j, "agent", host)...), syscall.SIGKILL)
	case SessionKill:
		return signal("session", syscall.SIGKILL)
	case LauncherKill:
		return signal("launcher", syscall.SIGKILL)
	case LauncherTerm:
		return signal("launcher", syscall.SIGTERM)
	case LauncherInt:
		return signal("launcher", syscall.SIGINT)
	case LauncherIntInt:
		if err := signal("launcher", syscall.SIGINT); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond) // signals that wait become one
		_ = signal("launcher", syscall.SIGINT)
		return nil
	case LauncherHup:
		return signal("launcher", syscall.SIGHUP)
	case OutputClosed:
		j.CloseOutput()
		return nil
	case RankStop:
		return pause("rank")
	case AgentStop:
		return pause("agent")
	case GuardStop:
		return pause("guard")
	case SessionStop:
		return pause("session")
	case LauncherStop:
		return pause("launcher")
	}
	return s.disturb(ctx, kind, host, lasts)
}

// disturb does a network fault.
func (s *Scene) disturb(ctx context.Context, kind Kind, host string, lasts time.Duration) error {
	blip := func(err error, undo func() error) error {
		if err != nil {
			return err
		}
		time.Sleep(lasts)
		return undo()
	}
	switch kind {
	case Reset:
		if !s.c.Connected(ctx, "f0", host) {
			return errNobody
		}
		return s.c.Reset(ctx, "f0", host)
	case HostCut:
		return s.c.Cut(ctx, host)
	case DropToHost:
		return s.c.Drop(ctx, "f0", host)
	case DropFromHost:
		return s.c.Drop(ctx, host, "f0")
	case HostBlip:
		return blip(s.c.Cut(ctx, host), func() error { return s.c.Restore(ctx, host) })
	case BlipToHost:
		return blip(s.c.Drop(ctx, "f0", host), func() error { return s.c.Undrop(ctx, "f0", host) })
	case BlipFromHost:
		return blip(s.c.Drop(ctx, host, "f0"), func() error { return s.c.Undrop(ctx, host, "f0") })
	}
	return fmt.Errorf("no fault is called %q", kind)
}

// victims returns the processes that a fault hits: one rank, or all of another kind.
func (s *Scene) victims(j *Job, word, host string) []int {
	switch word {
	case "launcher":
		select {
		case <-j.ended:
			return nil
		default:
			return []int{j.Launcher()}
		}
	case "agent":
		return j.On(host, "__serve")
	case "guard":
		return j.On(host, "__agent")
	case "session":
		return sessions(s.c.Host(host))
	}
	for _, pid := range j.On(host, s.Rank) {
		if !strings.HasPrefix(command(pid), s.Rank) {
			continue // an agent that starts it
		}
		return []int{pid}
	}
	return nil
}

// sessions returns the sshd processes that carry connections.
func sessions(h *lab.Host) []int { return lab.Children(h.PID) }

// send signals processes, and returns errNobody if there are none.
func send(pids []int, signals ...syscall.Signal) error {
	if len(pids) == 0 {
		return errNobody
	}
	result := errNobody
	for _, pid := range pids {
		for _, s := range signals {
			if err := syscall.Kill(pid, s); err == nil {
				result = nil
			} else if !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return result
}
