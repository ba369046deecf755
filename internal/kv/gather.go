package kv

import (
	"fmt"
	"slices"
)

// MaxFence is the most bytes that one rank may post to a fence.
const MaxFence = 64 << 10

const (
	maxOpen   = 1024     // open fences
	maxGather = 64 << 20 // bytes of all their values together
)

// Gather collects one value per member under each name until all members are
// in. It is not safe for concurrent use.
type Gather struct {
	want  int
	open  map[string]map[int][]byte
	bytes int // of the values in open
}

// NewGather returns a Gather that waits for want members under each name.
func NewGather(want int) *Gather {
	return &Gather{want: want, open: map[string]map[int][]byte{}}
}

// DuplicateError means that a member posted a second value to an open fence.
type DuplicateError struct {
	Name   string
	Member int
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("fence %q: rank %d came twice", e.Name, e.Member)
}

// Stuck reports an open name that can never complete, because a member that has ended is not in it. Of several names it is the first in
// alphabetical order.
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

// Add adds values by member. When they complete the name, it returns all
// values and forgets the name, which may then be used again. The values are
// kept, not copied.
func (g *Gather) Add(name string, values map[int][]byte) (all map[int][]byte, err error) {
	size, err := sizeOf(name, values)
	if err != nil {
		return nil, err
	}
	got := g.open[name]
	if got == nil {
		if len(g.open) >= maxOpen {
			return nil, fmt.Errorf("fence %.40q: %d fences are open already", name, maxOpen)
		}
		got = map[int][]byte{}
	}
	for member := range values {
		if _, twice := got[member]; twice {
			return nil, &DuplicateError{name, member}
		}
	}
	if g.bytes+size > maxGather {
		return nil, fmt.Errorf("fence %.40q: the values in open fences are more than %d bytes", name, maxGather)
	}
	g.bytes += size
	g.open[name] = got
	for member, value := range values {
		got[member] = value
	}
	if len(got) < g.want {
		return nil, nil
	}
	delete(g.open, name)
	size, _ = sizeOf(name, got)
	g.bytes -= size
	return got, nil
}

// sizeOf adds up values, and refuses those that are too large.
func sizeOf(name string, values map[int][]byte) (size int, err error) {
	if len(name) > MaxKey {
		return 0, fmt.Errorf("fence %.40q: a name of %d bytes, at most %d allowed", name, len(name), MaxKey)
	}
	for member, value := range values {
		if len(value) > MaxFence {
			return 0, fmt.Errorf("fence %.40q: rank %d brings %d bytes, at most %d allowed", name, member, len(value), MaxFence)
		}
		size += len(value)
	}
	return size, nil
}
