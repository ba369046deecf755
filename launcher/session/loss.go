package session

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
)

// ConnectionLost returns why no more frames come from the agent. err is the end of the stream,
// which rarely says why.
func (c *command) ConnectionLost(err error) error {
	select {
	case <-c.ended:
	case <-time.After(time.Second):
		return fmt.Errorf("lost the connection to the agent: %w", err)
	}
	return explainLoss(err, c.result, c.stderr.String())
}

// agentSays is the prefix of the last line of an agent that ends early.
const agentSays = "gorun agent: "

// explainLoss returns the reason why the frames ended with err. ran is the result of the agent's
// command. It is pure.
func explainLoss(err, ran error, stderr string) error {
	var status interface{ ExitCode() int }
	_, last, found := strings.Cut(stderr, agentSays)
	switch {
	case errors.As(ran, &status) && found && status.ExitCode() == wire.CodeHostFailed:
		return fmt.Errorf("the agent %s", last)
	case killedBy(ran) != 0:
		err = &AgentEndedError{Signal: killedBy(ran)}
	case errors.As(ran, &status):
		err = endedWith(status.ExitCode())
	case ran != nil:
		err = fmt.Errorf("lost the connection to the agent: %w", ran)
	case errors.Is(err, io.EOF):
		err = endedWith(0)
	}
	if stderr != "" {
		err = fmt.Errorf("%w: %s", err, stderr)
	}
	return err
}

// endedWith explains the exit code of an agent's guard. 255 is the code of ssh programs that lost
// their connection.
func endedWith(code int) *AgentEndedError {
	if wire.CodeSweptBase < code && code < 255 {
		return &AgentEndedError{Signal: syscall.Signal(code - wire.CodeSweptBase), Swept: true}
	}
	return &AgentEndedError{Code: code, Swept: code < wire.CodeHostFailed}
}

// ExplainFailing returns the reason that an agent gave for its end.
func ExplainFailing(f wire.Failing) error {
	if f.GuardGone { // a guard that is not killed ends after its agent
		return &AgentEndedError{Code: wire.SignalCode(syscall.SIGKILL)}
	}
	if f.Broken != "" {
		return &ServerError{Reason(f.Broken)}
	}
	return fmt.Errorf("the agent was told to end there: %s", Reason(f.Signal))
}

// ServerError reports that a program which serves a host's ranks has failed.
type ServerError struct{ Reason string }

func (e *ServerError) Error() string { return e.Reason }

// AgentEndedError reports that an agent ended while its host and the connection worked.
type AgentEndedError struct {
	Signal syscall.Signal // signal that ended it; 0: only its exit code is known
	Code   int            // exit code, if Signal is 0
	Swept  bool           // whether the guard has ended the ranks and everything they started
}

func (e *AgentEndedError) Error() string {
	if e.Signal != 0 {
		return fmt.Sprintf("the agent was killed by signal %d (%s)", e.Signal, unix.SignalName(e.Signal))
	}
	if e.Code == 0 {
		return "the agent ended too early"
	}
	return fmt.Sprintf("the agent was killed or failed (exit code %d)", e.Code)
}

// Killed reports whether SIGKILL ended it.
func (e *AgentEndedError) Killed() bool {
	return e.Signal == syscall.SIGKILL || e.Code == wire.SignalCode(syscall.SIGKILL)
}

// killedBy returns the signal that ended a command on this machine, or 0.
func killedBy(err error) syscall.Signal {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal()
	}
	return 0
}
