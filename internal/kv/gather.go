package kv

import (
	"fmt"
	"slices"
)

// MaxFence is the most bytes one rank may bring to a fence.
const MaxFence = 64 << 10

// maxOpen bounds the fences that can be under way at once.
const maxOpen = 1024

// Gather collects one value per member under each name until all members are
// in. It is not safe for concurrent use.
type Gather struct {
	want int
	open map[string]map[int][]byte
}

// NewGather returns a Gather that waits for want members under each name.
func NewGather(want int) *Gather {
	return &Gather{want: want, open: map[string]map[int][]byte{}}
}

// DuplicateError says that a member brought a second value to an open fence.
type DuplicateError struct {
	Name   string
	Member int
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("fence %q: rank %d came twice", e.Name, e.Member)
}

// Stuck reports an open name that can never complete, since one of the members
// that have ended is not in it. Of several it is the first in the alphabet.
func (g *Gather) Stuck(ended []int) (name string, member int, stuck bool) {
	for open, got := range g.open {
		if stuck && name <= open {
			continue
		}
		if i := slices.IndexFunc(ended, func(m int) bool { _, in := got[m]; return !in }); i >= 0 {
			name, member, stuck = open, ended[i], true
		}
	}
	return name, member, stuck
}

// Add brings values by member. When they complete the name, it returns all
// values and forgets the name, which may then be used again. The values are
// kept, not copied.
func (g *Gather) Add(name string, values map[int][]byte) (all map[int][]byte, err error) {
	got := g.open[name]
	if got == nil {
		if len(g.open) >= maxOpen {
			return nil, fmt.Errorf("fence %q: %d fences are open already", name, maxOpen)
		}
		got = make(map[int][]byte, g.want)
		g.open[name] = got
	}
	for member := range values {
		if _, twice := got[member]; twice {
			return nil, &DuplicateError{name, member}
		}
	}
	for member, value := range values {
		got[member] = value
	}
	if len(got) < g.want {
		return nil, nil
	}
	delete(g.open, name)
	return got, nil
}
