package agent

import (
	"os"
	"time"

	"github.com/gorun/gorun/internal/host/link"
	"github.com/gorun/gorun/internal/net/wire"
)

// line is the SSH connection to the launcher's side.
type line struct {
	conn   *link.Connection
	period *time.Ticker
}

// openLine finds the connection. Without SSH, or in another network namespace than sshd's, it
// returns nil: only the lease ends the ranks then.
func openLine(job wire.Job) *line {
	if !job.SSH {
		return nil
	}
	conn, err := link.Open(os.Getenv("SSH_CONNECTION"))
	if err != nil {
		return nil
	}
	return &line{conn, time.NewTicker(link.Period)}
}

// due fires when the connection must be read.
func (l *line) due() <-chan time.Time {
	if l == nil {
		return nil
	}
	return l.period.C
}

// read reads the state of the connection. When it is closed, sshd ends the agent's stdin soon.
func (l *line) read() event {
	r, err := l.conn.Read()
	if err != nil {
		return eventTick{}
	}
	return eventReading{r}
}

func (l *line) close() {
	if l != nil {
		l.period.Stop()
		l.conn.Close()
	}
}
