package agent

import (
	"os"
	"sync"

	"github.com/gorun/gorun/internal/net/wire"
)

// inputStream is the number of a host's one stream of standard input.
const inputStream = 0

// stdin carries the launcher's standard input to those of this host's ranks that read it.
// Each gets every byte, at its own speed; credit is returned for what all of them have
// taken, so the slowest one holds the launcher back and memory is bounded by the
// window. A rank that has ended or closed its input does not count.
type stdin struct {
	out *wire.Writer

	mu      sync.Mutex
	readers map[int]*inputReader // by rank
	queued  int                  // cost of the pieces that some reader has not taken
	eof     bool
}

// inputReader is a rank that reads standard input.
type inputReader struct {
	file    *os.File
	arrived sync.Cond
	wait    []*inputPiece // pieces that it has not taken yet
	left    bool          // it takes no more input
}

// inputPiece is some bytes of the input, shared by all readers.
type inputPiece struct {
	data    []byte
	readers int // number of readers that have not taken it yet
}

func newStdin(out *wire.Writer) *stdin { return &stdin{out: out, readers: map[int]*inputReader{}} }

// attach adds a rank, before the first push. The caller runs the returned function, which ends with
// the input or when the rank takes no more of it.
func (s *stdin) attach(rank int, file *os.File) (run func()) {
	r := &inputReader{file: file}
	r.arrived.L = &s.mu
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers[rank] = r
	return func() { s.run(rank, r) }
}

// push queues a copy of data for every reader; no data is the end of the input.
func (s *stdin) push(data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.eof || len(s.readers) == 0 {
		return nil // no rank reads it
	}
	if s.eof = len(data) == 0; !s.eof {
		if s.queued += wire.Cost(len(data)); s.queued > wire.Window {
			return &wire.FormatError{Reason: "stdin beyond its credit"}
		}
	}
	piece := &inputPiece{append([]byte(nil), data...), len(s.readers)}
	for _, r := range s.readers {
		if !s.eof {
			r.wait = append(r.wait, piece)
		}
		r.arrived.Signal()
	}
	return nil
}

// close ends the input of a rank and drops what is queued for it.
func (s *stdin) close(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.readers[rank]; r != nil {
		r.left = true
		r.arrived.Signal()
		_ = r.file.Close() // wakes a blocked Write
	}
}

func (s *stdin) run(rank int, r *inputReader) {
	defer r.file.Close()
	for {
		piece := s.next(r)
		if piece == nil {
			break
		}
		_, err := r.file.Write(piece.data)
		s.returnCredit(s.taken(piece))
		if err != nil {
			break // it has closed its input
		}
	}
	s.returnCredit(s.leave(rank, r))
}

// next waits for the reader's next piece, nil at the end of the input.
func (s *stdin) next(r *inputReader) *inputPiece {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(r.wait) == 0 && !s.eof && !r.left {
		r.arrived.Wait()
	}
	if len(r.wait) == 0 || r.left {
		return nil
	}
	piece := r.wait[0]
	r.wait = r.wait[1:]
	return piece
}

// taken notes that a reader has taken pieces, and returns the cost of those that no reader needs
// any more.
func (s *stdin) taken(pieces ...*inputPiece) (n int, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range pieces {
		if p.readers--; p.readers == 0 {
			n += wire.Cost(len(p.data))
		}
	}
	s.queued -= n
	return n, n > 0
}

// leave removes a reader. When none is left, the launcher gets credit of 0.
func (s *stdin) leave(rank int, r *inputReader) (n int, due bool) {
	s.mu.Lock()
	rest := r.wait
	r.wait = nil
	delete(s.readers, rank)
	last := len(s.readers) == 0 && !s.eof
	s.mu.Unlock()
	n, due = s.taken(rest...)
	if last {
		return 0, true
	}
	return n, due
}

func (s *stdin) returnCredit(n int, due bool) {
	if due {
		_ = s.out.SendCredit(inputStream, n)
	}
}
