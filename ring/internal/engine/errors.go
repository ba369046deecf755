package engine

import (
	"fmt"

	"github.com/gorun/gorun/ring/internal/collective"
)

// MismatchError reports that two ranks made different calls where all ranks must make the same. No
// data has moved.
type MismatchError struct {
	Rank, Peer   int             // this rank and the other
	Mine, Theirs collective.Call // calls of the two
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("ring: calls differ: rank %d: %v; rank %d: %v", e.Rank, e.Mine, e.Peer, e.Theirs)
}

// LinkError is a failure of the link to one rank.
type LinkError struct {
	Rank int
	Err  error
}

func (e *LinkError) Error() string { return fmt.Sprintf("link to rank %d: %v", e.Rank, e.Err) }
func (e *LinkError) Unwrap() error { return e.Err }
