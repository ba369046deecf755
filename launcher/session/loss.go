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

	"github.com/gorun/gorun/internal/wire"
)

// LossReason returns why a session ended early: the cause, rather than the end
// of a stream.
func (s *Session) LossReason(err error) error {
	select {
	case <-s.ended:
	case <-time.After(time.Second):
		return fmt.Errorf("lost the connection to the agent: %w", err)
	}
	return explainLoss(err, s.runErr, s.stderr.String())
}

// agentSays is the prefix of the last line of an agent that ends early.
const agentSays = "gorun agent: "

// explainLoss returns the reason why the frames ended with err. ran is the result of the agent's command. It is pure.
func explainLoss(err, ran error, stderr string) error {
	var status interface{ ExitCode() int }
	_, last, found := strings.Cut(stderr, agentSays)
	switch {
	case errors.As(ran, &status) && found && status.ExitCode() == wire.CodeHostFailed:
		return fmt.Errorf("the agent %s", last)
	case killedBy(ran) != 0:
		err = &AgentEndedError{Signal: killedBy(ran)}
	case errors.As(ran, &status) && status.ExitCode() > wire.CodeSweptBase:
		err = &AgentEndedError{Signal: syscall.Signal(status.ExitCode() - wire.CodeSweptBase), Swept: true}
	case errors.As(ran, &status):
		err = &AgentEndedError{Code: status.ExitCode()}
	case ran != nil:
		err = fmt.Errorf("lost the connection to the agent: %w", ran)
	case errors.Is(err, io.EOF):
		err = errors.New("the agent ended too early")
	}
	if stderr != "" {
		err = fmt.Errorf("%w: %s", err, stderr)
	}
	return err
}

// ExplainFailing returns the reason that an agent gave for its end.
func ExplainFailing(f wire.Failing) error {
	if f.GuardGone { // a guard that is not killed ends after its agent
		return &AgentEndedError{Code: wire.SignalCode(syscall.SIGKILL)}
	}
	return fmt.Errorf("the agent was told to end there: %s", Clean(f.Signal))
}

// AgentEndedError reports that an agent ended while its host and the connection worked.
type AgentEndedError struct {
	Signal syscall.Signal // that ended it, or 0 if only its exit code is known
	Code   int            // its exit code elsewhere
	Swept  bool           // its guard has ended its ranks and all that they started
}

func (e *AgentEndedError) Error() string {
	if e.Signal != 0 {
		return fmt.Sprintf("the agent was killed by signal %d (%s)", e.Signal, unix.SignalName(e.Signal))
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
