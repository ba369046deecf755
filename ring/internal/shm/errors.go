package shm

import (
	"errors"
	"fmt"
)

// None is the rank of nobody.
const None = -1

// Region is a range of bytes of a vector.
type Region struct{ Off, Len int }

// Exchange is how ranks learn of each other before they share memory: every rank
// of the communicator brings a value and gets those of all, by rank.
type Exchange func(name string, value []byte) ([][]byte, error)

// ErrBroken says that the job ended while a rank waited.
var ErrBroken = errors.New("the job is over")

// GoneError says that another rank has ended, or closed the group, and is waited
// for in vain. Rank is its number in the group.
type GoneError struct{ Rank int }

func (e *GoneError) Error() string { return fmt.Sprintf("rank %d is gone", e.Rank) }

// SignError says that another rank makes another call. Rank is its number in the
// group.
type SignError struct {
	Rank         int
	Mine, Theirs uint64
}

func (e *SignError) Error() string {
	return fmt.Sprintf("rank %d makes another call (%x, here %x)", e.Rank, e.Theirs, e.Mine)
}

// LengthError says that a rank sends a message of another length than this one
// expects from it. Rank is its number in the group; lengths are in bytes.
type LengthError struct{ Rank, Mine, Theirs int }

func (e *LengthError) Error() string {
	return fmt.Sprintf("rank %d sends %d bytes where %d are expected", e.Rank, e.Theirs, e.Mine)
}
