package agent

import (
	"os"
	"time"

	"github.com/gorun/gorun/internal/host/link"
)

// openLine finds the SSH connection to the launcher. Without SSH, or in another network namespace
// than sshd's, there is none: only the lease ends the ranks then.
func (a *agent) openLine() {
	if !a.job.SSH {
		return
	}
	if line, err := link.Open(os.Getenv("SSH_CONNECTION")); err == nil {
		a.line = line
	}
}

// readings returns a channel that fires when the connection must be read, nil without one. The
// caller ends it.
func (a *agent) readings() (readings <-chan time.Time, end func()) {
	if a.line == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(link.Period)
	return ticker.C, func() {
		ticker.Stop()
		a.line.Close()
	}
}

// inspect reads the state of the connection. When it is closed, sshd ends the agent's stdin soon.
func (a *agent) inspect() any {
	r, err := a.line.Read()
	if err != nil {
		return eventTick{}
	}
	return eventReading{r}
}

// tick recognises that the agent itself was stopped meanwhile, as a batch system does: the
// launcher's frames of that time are not read yet.
func (a *agent) tick() any {
	late := a.now()-a.ticked > 3*tickTime
	a.ticked = a.now()
	if late {
		return eventExcuse{}
	}
	return eventTick{}
}
