package tcp

import (
	"errors"
	"fmt"

	"github.com/gorun/gorun/ring/internal/flow"
)

var (
	// ErrClosed means that the other rank has exited or closed the link.
	ErrClosed = errors.New("connection closed")
	// ErrInterrupted reports a call of Interrupt.
	ErrInterrupted = errors.New("interrupted")

	errAbsent = errors.New("no connection came from it")
)

// PeerError reports a rank whose link could not be made or failed.
type PeerError struct {
	Rank int
	Err  error
}

func (e *PeerError) Error() string { return fmt.Sprintf("link to rank %d: %v", e.Rank, e.Err) }
func (e *PeerError) Unwrap() error { return e.Err }

// SignError reports a rank in another flow than this one.
type SignError struct {
	Rank   int
	Theirs flow.Sign
}

func (e *SignError) Error() string { return fmt.Sprintf("rank %d is in another flow", e.Rank) }
