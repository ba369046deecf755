package kv

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// MaxFence is the most bytes that one rank may post to a fence.
const MaxFence = 64 << 10

const (
	maxOpen       = 1024     // open fences
	maxFenceBytes = 64 << 20 // bytes of the values of all open fences
)

// Fences holds open fences: each collects one value from every member under its name. It is not
// safe for concurrent use.
type Fences struct {
	// Largest bounds the bytes of one fence's values together; 0: only those of all fences are
	// bounded.
	Largest int

	want     int
	open     map[string]*fence
	opened   map[string]int // key: who opened fences; number of those that are open
	held     map[string]int // key: who brought values; their bytes in open fences
	bytes    int            // bytes of the values in open fences
	ended    []int          // members that bring no more values, in the order of their ends
	endedSet map[int]bool   // the same
}

// fence is one open fence.
type fence struct {
	opener string
	values map[int][]byte // key: member
	lowest int            // lowest member
	bytes  map[string]int // bytes of the values; key: who brought them
	total  int            // bytes of all values
	first  int            // how many of the first members that ended are known to be in it
}

// lacks returns the first of the members that have ended that is not in the fence. It goes on where
// it was: tens of thousands may end one by one.
func (f *fence) lacks(ended []int) (member int, lacks bool) {
	for ; f.first < len(ended); f.first++ {
		if _, in := f.values[ended[f.first]]; !in {
			return ended[f.first], true
		}
	}
	return 0, false
}

// NewFences returns fences of want members each.
func NewFences(want int) *Fences {
	return &Fences{
		want:     want,
		open:     map[string]*fence{},
		opened:   map[string]int{},
		held:     map[string]int{},
		endedSet: map[int]bool{},
	}
}

// DuplicateError reports that a member posted a second value to an open fence.
type DuplicateError struct {
	Name   string
	Member int
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("fence %q: rank %d came twice", e.Name, e.Member)
}

// FullError reports that somebody has taken too much of what all have for open fences.
type FullError struct {
	Name          string
	By            string
	Opened, Bytes int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("fence %.40q: %s has opened %d fences already, and brought %d bytes to open ones", e.Name, e.By,
		e.Opened, e.Bytes)
}

// LargeError reports that the values of one fence are too large together.
type LargeError struct {
	Name           string
	Bytes, Largest int
	By             string // who has brought most of them
	Brought        int    // bytes of their values
}

func (e *LargeError) Error() string {
	return fmt.Sprintf("fence %.40q: its values are %d bytes, at most %d allowed; %s brings %d of them, the most",
		e.Name, e.Bytes, e.Largest, e.By, e.Brought)
}

// End records that a member has ended, and brings no more values.
func (f *Fences) End(member int) {
	if f.endedSet[member] {
		return
	}
	f.endedSet[member] = true
	f.ended = append(f.ended, member)
}

// Stuck reports an open fence that cannot end, because a member that has ended is not in it: of
// several the first by name, with the lowest member that waits there.
func (f *Fences) Stuck() (name string, member, waiter int, stuck bool) {
	for open, one := range f.open {
		if missing, lacks := one.lacks(f.ended); lacks && (!stuck || open < name) {
			name = open
			member = missing
			waiter = one.lowest
			stuck = true
		}
	}
	return name, member, waiter, stuck
}

// Add adds values by member. The fence ends when all members have one: Add then returns all values,
// and the name may be used again. The values are kept, not copied.
func (f *Fences) Add(name string, values map[int][]byte) (all map[int][]byte, err error) {
	first := slices.Min(append(slices.Collect(maps.Keys(values)), math.MaxInt))
	return f.AddBy("rank "+strconv.Itoa(first), name, values)
}

// AddBy is Add for values that somebody brings. They may open as many fences, and bring as many
// bytes, as they leave for others: a hostile host would fail the others otherwise.
func (f *Fences) AddBy(by, name string, values map[int][]byte) (all map[int][]byte, err error) {
	size, err := sizeOf(name, values)
	if err != nil {
		return nil, err
	}
	one := f.open[name]
	opens := one == nil
	full := f.held[by]+size > maxFenceBytes-f.bytes-size
	if full || opens && f.opened[by] >= maxOpen-len(f.open) {
		return nil, &FullError{name, by, f.opened[by], f.held[by]}
	}
	if opens {
		one = &fence{
			opener: by,
			values: map[int][]byte{},
			lowest: math.MaxInt,
			bytes:  map[string]int{},
		}
	}
	for member := range values {
		if _, twice := one.values[member]; twice {
			return nil, &DuplicateError{name, member}
		}
	}
	if f.Largest > 0 && one.total+size > f.Largest {
		return nil, one.tooLarge(name, f.Largest, by, size)
	}
	if opens {
		f.open[name] = one
		f.opened[by]++
	}
	f.bytes += size
	f.held[by] += size
	one.bytes[by] += size
	one.total += size
	maps.Copy(one.values, values)
	for member := range values {
		one.lowest = min(one.lowest, member)
	}
	if len(one.values) < f.want {
		return nil, nil
	}
	delete(f.open, name)
	f.opened[one.opener]--
	for who, brought := range one.bytes {
		f.held[who] -= brought
		f.bytes -= brought
	}
	return one.values, nil
}

// tooLarge returns the error for a fence with size bytes more of somebody's.
func (f *fence) tooLarge(name string, largest int, by string, size int) *LargeError {
	brought := maps.Clone(f.bytes)
	brought[by] += size
	e := &LargeError{Name: name, Bytes: f.total + size, Largest: largest}
	for _, who := range slices.Sorted(maps.Keys(brought)) {
		if e.By == "" || brought[who] > e.Brought {
			e.By = who
			e.Brought = brought[who]
		}
	}
	return e
}

// sizeOf returns the bytes of values, or an error if one is too large.
func sizeOf(name string, values map[int][]byte) (size int, err error) {
	if len(name) > MaxKey {
		return 0, fmt.Errorf("fence %.40q: a name of %d bytes, at most %d allowed", name, len(name), MaxKey)
	}
	if len(values) == 0 {
		return 0, fmt.Errorf("fence %.40q: no rank brings a value", name)
	}
	for member, value := range values {
		if len(value) > MaxFence {
			return 0, fmt.Errorf("fence %.40q: rank %d brings %d bytes, at most %d allowed", name, member, len(value),
				MaxFence)
		}
		size += len(value)
	}
	return size, nil
}
