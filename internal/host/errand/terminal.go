package errand

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

const (
	// lingerTime is how long a rank's last output waits in its terminal for the first reader, who
	// may come after the rank's end.
	lingerTime = 3 * time.Second
	lingerPoll = 10 * time.Millisecond
)

// rankTerminal is the terminal of a rank.
type rankTerminal struct {
	*terminal
	ended chan struct{} // closed when the rank has ended
	busy  bool          // an errand is connected with it
	used  bool          // an errand has been connected with it
}

// OpenTerminal makes a terminal for a rank. The caller closes the returned file, the rank's
// standard files, when the rank has it.
func (s *Server) OpenTerminal(rank int) (*os.File, error) {
	t, err := newTerminal()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terminals[rank] = &rankTerminal{terminal: t, ended: make(chan struct{})}
	return t.slave, nil
}

// RankEnded reports the end of a rank.
func (s *Server) RankEnded(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.terminals[rank]; t != nil {
		close(t.ended)
	}
}

// Linger waits, within bounds, until the output of all terminals was read.
func (s *Server) Linger() {
	for end := time.Now().Add(lingerTime); s.unread() && time.Now().Before(end); {
		time.Sleep(lingerPoll)
	}
}

func (s *Server) unread() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.terminals {
		if t.busy || !t.used && t.unread() {
			return true
		}
	}
	return false
}

// reserve reserves the terminal of a rank for one errand, until release.
func (s *Server) reserve(rank int) (*rankTerminal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.terminals[rank]
	switch {
	case t == nil:
		return nil, fmt.Errorf("rank %d has no terminal of its own: a job has them with --panes", rank)
	case t.busy:
		return nil, fmt.Errorf("the terminal of rank %d is in use", rank)
	}
	t.busy = true
	t.used = true
	return t, nil
}

func (s *Server) release(t *rankTerminal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.busy = false
}

// attachTerminal connects the user with the terminal of a rank until the rank ends.
func (e *errand) attachTerminal() error {
	if len(e.ask.Ranks) != 1 {
		return fmt.Errorf("a terminal is of one rank, and %d were named", len(e.ask.Ranks))
	}
	t, err := e.server.reserve(e.ask.Ranks[0])
	if err != nil {
		return err
	}
	defer e.server.release(t)
	if size := e.ask.Terminal; size != nil {
		e.sizes(t.terminal, *size)
	}
	_ = t.master.SetDeadline(time.Time{})
	var pump, input sync.WaitGroup
	pump.Go(func() { e.pump(t.master, wire.TellOut) })
	input.Go(func() { e.feed(t.master, func() {}) })
	select {
	case <-t.ended:
		_ = t.master.SetReadDeadline(time.Now().Add(drainTime))
		late := time.AfterFunc(drainTime, e.credit.Close) // the user has stopped reading
		pump.Wait()
		late.Stop()
	case <-e.dropped:
		_ = t.master.SetReadDeadline(time.Now())
		pump.Wait()
	}
	e.endInput()
	_ = t.master.SetWriteDeadline(time.Now()) // ends a blocked write
	input.Wait()
	return nil
}

// processes prints the processes of ranks that run.
func (e *errand) processes() error {
	text, err := json.Marshal(e.pids())
	if err == nil && !e.write(text) {
		err = syscall.EPIPE // the user has stopped reading
	}
	return err
}
