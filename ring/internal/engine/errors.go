package engine

import "fmt"

// MismatchError reports that two ranks made different calls. No data has moved.
type MismatchError struct {
	Rank, Peer   int
	Mine, Theirs Call
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("calls differ: rank %d: %v; rank %d: %v", e.Rank, e.Mine, e.Peer, e.Theirs)
}

// LinkError is a failure of the link to one rank.
type LinkError struct {
	Rank int
	Err  error
}

func (e *LinkError) Error() string { return fmt.Sprintf("link to rank %d: %v", e.Rank, e.Err) }
func (e *LinkError) Unwrap() error { return e.Err }
