package errand

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/host/terminal"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	// lingerTime is how long a rank's last output waits in its terminal for the first reader, who
	// may come after the rank's end.
	lingerTime = 3 * time.Second
	lingerPoll = 10 * time.Millisecond
)

// lent is the terminal of a rank.
type lent struct {
	*terminal.Terminal
	ended   chan struct{} // closed when the rank has ended
	busy    bool          // an errand is connected with it
	visited bool          // some errand was
}

// Lend makes a terminal for a rank. The caller closes the returned file, the rank's standard files,
// when the rank has it.
func (d *Desk) Lend(rank int) (*os.File, error) {
	t, err := terminal.Open()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lent[rank] = &lent{Terminal: t, ended: make(chan struct{})}
	return t.Slave, nil
}

// RankEnded reports the end of a rank.
func (d *Desk) RankEnded(rank int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.lent[rank]; l != nil {
		close(l.ended)
	}
}

// Linger waits, within bounds, until the output of all terminals was read.
func (d *Desk) Linger() {
	for end := time.Now().Add(lingerTime); d.unread() && time.Now().Before(end); {
		time.Sleep(lingerPoll)
	}
}

func (d *Desk) unread() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, l := range d.lent {
		if l.busy || !l.visited && l.Unread() {
			return true
		}
	}
	return false
}

// take reserves the terminal of a rank.
func (d *Desk) take(rank int) (*lent, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.lent[rank]
	switch {
	case l == nil:
		return nil, fmt.Errorf("rank %d has no terminal of its own: a job has them with --panes", rank)
	case l.busy:
		return nil, fmt.Errorf("the terminal of rank %d is in use", rank)
	}
	l.busy = true
	l.visited = true
	return l, nil
}

func (d *Desk) giveBack(l *lent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.busy = false
}

// visit connects the user with the terminal of a rank until the rank ends.
func (e *errand) visit() error {
	l, err := e.desk.take(e.ranks()[0])
	if err != nil {
		return err
	}
	defer e.desk.giveBack(l)
	if t := e.ask.Terminal; t != nil {
		e.sizes(l.Terminal, *t)
	}
	_ = l.Master.SetDeadline(time.Time{})
	var pump, input sync.WaitGroup
	pump.Go(func() { e.pump(l.Master, wire.TellOut) })
	input.Go(func() { e.feed(&links{in: l.Master, terminal: true}) })
	select {
	case <-l.ended:
		_ = l.Master.SetReadDeadline(time.Now().Add(drainTime))
		late := time.AfterFunc(drainTime, e.credit.Close) // the user has stopped reading
		pump.Wait()
		late.Stop()
	case <-e.dropped:
		_ = l.Master.SetReadDeadline(time.Now())
		pump.Wait()
	}
	e.mu.Lock()
	e.ended = true
	e.resize = nil
	e.came.Broadcast()
	e.mu.Unlock()
	_ = l.Master.SetWriteDeadline(time.Now()) // ends a blocked write
	input.Wait()
	return nil
}

// processes prints the processes of ranks that run.
func (e *errand) processes() error {
	pids := map[int]int{}
	for _, rank := range e.ranks() {
		if pid, running := e.desk.host.PID(rank); running {
			pids[rank] = pid
		}
	}
	text, err := json.Marshal(pids)
	if err != nil {
		return err
	}
	for len(text) > 0 {
		n := e.credit.Take(min(len(text), wire.MaxTell))
		if n == 0 {
			return syscall.EPIPE // the user has stopped reading
		}
		_ = e.desk.out.SendTell(e.ask.ID, wire.TellOut, text[:n]) // the launcher may have gone
		text = text[n:]
	}
	return nil
}
