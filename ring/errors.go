package ring

import (
	"errors"
	"fmt"

	"github.com/gorun/gorun/ring/internal/engine"
)

// ErrClosed is returned by calls on a Comm that this rank has closed.
var ErrClosed = errors.New("ring: comm is closed")

// errQueueClosed is the cause of a PeerError about a rank that has closed a queue, or has ended so.
var errQueueClosed = errors.New("it has closed its queue")

// PeerError reports that the job cannot go on because one rank failed.
type PeerError struct {
	// the rank that failed first, as far as is known, by its number in the whole job; -1 when it
	// was no rank
	Rank  int
	Host  string // its host's name, as the user wrote it
	Op    string // the call that failed for it here, such as "allreduce" or "init"
	Cause error
}

func (e *PeerError) Error() string {
	if e.Rank < 0 {
		return fmt.Sprintf("ring: %s: %v", e.Op, e.Cause)
	}
	return fmt.Sprintf("ring: %s: rank %d on %s: %v", e.Op, e.Rank, e.Host, e.Cause)
}

func (e *PeerError) Unwrap() error { return e.Cause }

// MismatchError reports that two ranks made different calls where all ranks must make the same. No
// data has moved.
type MismatchError = engine.MismatchError
