package agent

import (
	"os"
	"time"

	"github.com/gorun/gorun/internal/agent/link"
)

// openLine finds the SSH connection to the launcher, and returns a channel that fires when it must be read. Without SSH, or in another
// network namespace than sshd's, the channel is nil: only the lease ends the ranks then.
func (a *agent) openLine() (readings <-chan time.Time, closeLine func()) {
	if !a.job.SSH {
		return nil, func() {}
	}
	line, err := link.Open(os.Getenv("SSH_CONNECTION"))
	if err != nil {
		return nil, func() {}
	}
	a.line = line
	ticker := time.NewTicker(link.Period)
	return ticker.C, func() {
		ticker.Stop()
		line.Close()
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

// tick recognises that the agent itself was stopped meanwhile, as a batch system does: the launcher's frames of that time are not
// read yet.
func (a *agent) tick() any {
	late := a.now()-a.ticked > 3*tickTime
	a.ticked = a.now()
	if late {
		return eventExcuse{}
	}
	return eventTick{}
}
