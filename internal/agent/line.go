package agent

import (
	"os"
	"time"

	"github.com/gorun/gorun/internal/agent/link"
)

// openLine finds the connection that the launcher came by, if it came by SSH, and returns when to look at it. In another
// network namespace than sshd's there is nothing to see: the lease is all there is then.
func (a *agent) openLine() (looks <-chan time.Time, closeLine func()) {
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

// look reads the state of the connection. When that is closed, sshd ends our stdin soon.
func (a *agent) look() any {
	r, err := a.line.Read()
	if err != nil {
		return eventTick{}
	}
	return eventLooked{r}
}

// tick tells when the agent itself was stopped meanwhile, as a batch system does: what the launcher has said in that
// time is still to be read.
func (a *agent) tick() any {
	late := a.now()-a.ticked > 3*tickTime
	a.ticked = a.now()
	if late {
		return eventExcuse{}
	}
	return eventTick{}
}
