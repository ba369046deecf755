package ring

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"slices"
)

// States joins several States into one.
func States(states ...State) State { return several(states) }

type several []State

func (s several) Save() error    { return s.each(State.Save) }
func (s several) Restore() error { return s.each(State.Restore) }

func (s several) Sync(ctx context.Context, c *Comm, root int) error {
	return s.each(func(one State) error { return one.Sync(ctx, c, root) })
}

func (s several) each(do func(State) error) error {
	for _, one := range s {
		if err := do(one); err != nil {
			return err
		}
	}
	return nil
}

// SliceState returns a State of the elements of s, such as a network's parameters. S has the same
// length on all ranks, and keeps its memory.
func SliceState[T Elem](s []T) State { return &sliceState[T]{live: s} }

type sliceState[T Elem] struct{ live, saved []T }

func (s *sliceState[T]) Save() error {
	s.saved = append(s.saved[:0], s.live...)
	return nil
}

func (s *sliceState[T]) Restore() error {
	copy(s.live, s.saved)
	return nil
}

func (s *sliceState[T]) Sync(ctx context.Context, c *Comm, root int) error {
	return Broadcast(ctx, c, s.live, root)
}

// ValueState returns a State of the value at p, which encoding/gob must be able to encode, such as
// a struct with exported fields. Restore and Sync replace the value, so pointers inside it change.
func ValueState[T any](p *T) State { return &valueState[T]{live: p} }

type valueState[T any] struct {
	live  *T
	saved []byte
}

func (s *valueState[T]) Save() error {
	text, err := s.encode()
	if err == nil {
		s.saved = text
	}
	return err
}

func (s *valueState[T]) encode() ([]byte, error) {
	var text bytes.Buffer
	if err := gob.NewEncoder(&text).Encode(s.live); err != nil {
		return nil, fmt.Errorf("ring: encode a state of type %T: %w", *s.live, err)
	}
	return text.Bytes(), nil
}

func (s *valueState[T]) Restore() error {
	if s.saved == nil {
		return errors.New("ring: restore a state that was not saved")
	}
	return s.decode(s.saved)
}

// decode starts from a zero value, because gob does not send zeros.
func (s *valueState[T]) decode(text []byte) error {
	var fresh T
	if err := gob.NewDecoder(bytes.NewReader(text)).Decode(&fresh); err != nil {
		return fmt.Errorf("ring: decode a state of type %T: %w", fresh, err)
	}
	*s.live = fresh
	return nil
}

func (s *valueState[T]) Sync(ctx context.Context, c *Comm, root int) error {
	var text []byte
	if c.Rank() == root {
		var err error
		if text, err = s.encode(); err != nil { // not Save: if this Sync fails, all must be restored to the same Save
			return err
		}
	}
	length := []int64{int64(len(text))}
	if err := Broadcast(ctx, c, length, root); err != nil {
		return err
	}
	if length[0] < 0 {
		return fmt.Errorf("ring: rank %d on %s says that its state has %d bytes", root, c.host(root), length[0])
	}
	// Piece by piece: the memory is taken as the bytes come, not because the root says that they
	// will.
	for at := 0; int64(at) < length[0]; at += statePiece {
		n := int(min(statePiece, length[0]-int64(at)))
		if c.Rank() != root {
			text = slices.Grow(text, n)[:at+n]
		}
		if err := Broadcast(ctx, c, text[at:at+n], root); err != nil {
			return err
		}
	}
	if c.Rank() == root {
		return nil
	}
	return s.decode(text)
}

const statePiece = 64 << 20 // bytes
