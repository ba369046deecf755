package tcp

import (
	"errors"
	"fmt"

	"github.com/gorun/gorun/ring/internal/flow"
)

var (
	// ErrClosed means that the rank at the other end is gone or has closed the link.
	ErrClosed = errors.New("connection closed")
	// ErrRefused means that the other end did not prove what it had to.
	ErrRefused = errors.New("handshake refused")
	// ErrInterrupted means that Interrupt was called.
	ErrInterrupted = errors.New("interrupted")

	// ErrChanged means that data did not come as it was sent.
	ErrChanged = errors.New("data was changed on the way")

	errAbsent  = errors.New("no connection came from it")
	errNowhere = errors.New("no address of it is known")
)

// PeerError says which rank could not be linked to, or whose link failed.
type PeerError struct {
	Rank int
	Err  error
}

func (e *PeerError) Error() string { return fmt.Sprintf("link to rank %d: %v", e.Rank, e.Err) }
func (e *PeerError) Unwrap() error { return e.Err }

// SignError says that another rank is in another flow than this one.
type SignError struct {
	Rank   int
	Theirs flow.Sign
}

func (e *SignError) Error() string { return fmt.Sprintf("rank %d is in another flow", e.Rank) }
