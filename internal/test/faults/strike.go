package faults

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

// strike does one fault. A transient fault is over when it returns.
func (s *Testbed) strike(ctx context.Context, j *Job, kind Kind, host string, lasts time.Duration) error {
	k := infoOf(kind)
	switch {
	case kind == OutputClosed:
		j.CloseOutput()
		return nil
	case kind == Reset && !s.c.Connected(ctx, "f0", host):
		return errNoVictim
	case kind == Reset:
		return s.c.Reset(ctx, "f0", host)
	case k.victim == "":
		if err := s.isolate(ctx, kind, host); err != nil || !k.passes() {
			return err
		}
		time.Sleep(lasts)
		return s.reconnect(ctx, kind, host)
	}
	pids := s.victims(j, k.victim, host)
	if err := send(pids, k.signal); err != nil {
		return err
	}
	switch {
	case kind == LauncherIntInt:
		time.Sleep(400 * time.Millisecond) // a sooner one counts as a copy of the first
		_ = send(pids, syscall.SIGINT)
	case k.passes():
		time.Sleep(lasts)
		_ = send(pids, syscall.SIGCONT) // a stopped process may have been killed
	}
	return nil
}

// isolate cuts a host off from the launcher, in one direction or both.
func (s *Testbed) isolate(ctx context.Context, kind Kind, host string) error {
	switch kind {
	case DropToHost, BlipToHost:
		return s.c.Drop(ctx, "f0", host)
	case DropFromHost, BlipFromHost:
		return s.c.Drop(ctx, host, "f0")
	}
	return s.c.Cut(ctx, host)
}

// reconnect undoes isolate.
func (s *Testbed) reconnect(ctx context.Context, kind Kind, host string) error {
	switch kind {
	case DropToHost, BlipToHost:
		return s.c.Undrop(ctx, "f0", host)
	case DropFromHost, BlipFromHost:
		return s.c.Undrop(ctx, host, "f0")
	}
	return s.c.Restore(ctx, host)
}

// victims returns the processes that a fault hits: one rank, or all of another kind.
func (s *Testbed) victims(j *Job, kind, host string) []int {
	switch kind {
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
	case "agent and guard":
		return append(s.victims(j, "guard", host), s.victims(j, "agent", host)...)
	case "session":
		return lab.Children(s.c.Host(host).PID) // sshd processes that carry connections
	}
	for _, pid := range j.On(host, s.Rank) {
		if strings.HasPrefix(command(pid), s.Rank) { // not an agent that starts it
			return []int{pid}
		}
	}
	return nil
}

// send signals processes, and returns errNoVictim if there are none.
func send(pids []int, signal syscall.Signal) error {
	result := errNoVictim
	for _, pid := range pids {
		if err := syscall.Kill(pid, signal); err == nil {
			result = nil
		} else if !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return result
}
