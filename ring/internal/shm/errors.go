package shm

import (
	"errors"
	"fmt"
)

// None stands for no rank.
const None = -1

// Region is a range of bytes of a vector.
type Region struct{ Off, Len int }

// Exchange is an all-gather of one value per rank of the communicator, by which ranks find
// each other before they share memory.
type Exchange func(name string, value []byte) ([][]byte, error)

// ErrBroken reports that the job ended while a rank waited.
var ErrBroken = errors.New("the job is over")

// LeftError reports that another rank ended or closed the group before a step that this
// rank waits for. Rank is its number in the group.
type LeftError struct{ Rank int }

func (e *LeftError) Error() string { return fmt.Sprintf("rank %d is gone", e.Rank) }

// SignError reports that another rank is in another call. Rank is its number in the group.
type SignError struct {
	Rank         int
	Mine, Theirs uint64
}

func (e *SignError) Error() string {
	return fmt.Sprintf("rank %d makes another call (%x, here %x)", e.Rank, e.Theirs, e.Mine)
}

// LengthError reports that a rank sends a message of another length than this one expects.
// Rank is its number in the group; lengths are in bytes.
type LengthError struct{ Rank, Mine, Theirs int }

func (e *LengthError) Error() string {
	return fmt.Sprintf("rank %d sends %d bytes where %d are expected", e.Rank, e.Theirs, e.Mine)
}
