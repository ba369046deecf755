// Package fold joins equal lines that several ranks print at about the same time, so that a
// terminal shows each of them once.
package fold

import (
	"slices"
	"time"
)

// Wait is how long a line waits for equal ones of other ranks.
const Wait = 200 * time.Millisecond

// Bounds of what waits. Above them the oldest lines are written.
const (
	maxBytes  = 1 << 20 // bytes of the lines' texts and numbers
	maxGroups = 4096
	maxLine   = 8 << 10 // a longer line is not folded
	spanBytes = 64      // about what a number takes
	rankBytes = 8
)

// maxSpare bounds the memory of written lines that is kept for later ones.
const maxSpare = 2 << 20

// Line is a line that one or more ranks have printed. Text and Ranks are valid during the call that
// gets them.
type Line struct {
	Ranks []int // sorted
	FD    int
	At    time.Time // when the first of them came
	Text  []byte    // text with its line end
}

// Folder holds lines back until all ranks have printed them, or for [Wait]. Lines of a rank are
// written in their order. It is not safe for concurrent use.
type Folder struct {
	Size    int        // number of ranks; 0: unknown, so every line waits
	Numbers bool       // whether lines that differ in numbers are equal
	Write   func(Line) // gets the lines

	waiting []*group            // in the order of their first lines
	first   int                 // number of waiting[0]
	open    map[string][]*group // equal ones of waiting, in its order
	last    map[int]int         // key: rank; number of the group that has its latest line
	bytes   int                 // size of the waiting texts and numbers
	key     []byte              // scratch memory
	spare   []*group            // memory for later groups
	spared  int                 // their bytes
}

// group is equal lines.
type group struct {
	Line

	number  int
	since   time.Time
	key     string
	numbers []span // only with Folder.Numbers
}

// bytes is the size of the text and its numbers.
func (g *group) bytes() int {
	size := len(g.Text)
	for _, s := range g.numbers {
		size += spanBytes + len(s.low.text) + len(s.high.text)
	}
	return size
}

// memory is what later lines could use of the group.
func (g *group) memory() int { return cap(g.Text) + spanBytes*cap(g.numbers) + rankBytes*cap(g.Ranks) }

// New returns a folder of lines of size ranks, 0 if their number is not known.
func New(size int, numbers bool, write func(Line)) *Folder {
	return &Folder{
		Size:    size,
		Numbers: numbers,
		Write:   write,
		open:    map[string][]*group{},
		last:    map[int]int{},
	}
}

// Add takes a line of a rank, which came at a time, and reports whether it does: a line that is too
// long must be written otherwise, after [Folder.Release].
func (f *Folder) Add(rank, fd int, text []byte, at, now time.Time) bool {
	if len(text) > maxLine {
		return false
	}
	f.key = append(f.key[:0], byte(fd))
	if f.Numbers {
		f.key = appendShape(f.key, text)
	} else {
		f.key = append(f.key, text...)
	}
	g := f.next(rank)
	if g == nil {
		g = f.begin(fd, text, at, now)
	} else if f.Numbers {
		f.bytes -= g.bytes()
		g.widen(text)
		f.bytes += g.bytes()
	}
	f.last[rank] = g.number
	if i, found := slices.BinarySearch(g.Ranks, rank); !found {
		g.Ranks = slices.Insert(g.Ranks, i, rank)
	}
	f.Due(now)
	for f.bytes > maxBytes || len(f.waiting) > maxGroups {
		f.writeFirst()
	}
	return true
}

// next returns the first group with key f.key after those of a rank's earlier lines, or nil.
func (f *Folder) next(rank int) *group {
	equal := f.open[string(f.key)]
	after, found := f.last[rank]
	if !found {
		after = -1
	}
	i, _ := slices.BinarySearchFunc(equal, after+1, func(g *group, number int) int { return g.number - number })
	if i == len(equal) {
		return nil
	}
	return equal[i]
}

// begin starts a group with a line whose key is f.key.
func (f *Folder) begin(fd int, text []byte, at, now time.Time) *group {
	g := &group{}
	if n := len(f.spare); n > 0 {
		g = f.spare[n-1]
		f.spare = f.spare[:n-1]
		f.spared -= g.memory()
	}
	if g.key != string(f.key) {
		g.key = string(f.key)
	}
	g.number = f.first + len(f.waiting)
	g.since = now
	g.Line = Line{
		Ranks: g.Ranks[:0],
		FD:    fd,
		At:    at,
		Text:  append(g.Text[:0], text...),
	}
	if f.Numbers {
		g.numbers = spansOf(g.numbers[:0], text)
	}
	f.waiting = append(f.waiting, g)
	f.open[g.key] = append(f.open[g.key], g)
	f.bytes += g.bytes()
	return g
}

// Due writes the lines that all ranks have printed or that have waited long enough, and returns how
// long the next one waits, or 0 if none does.
func (f *Folder) Due(now time.Time) time.Duration {
	for len(f.waiting) > 0 {
		g := f.waiting[0]
		left := Wait - now.Sub(g.since)
		if left > 0 && (f.Size == 0 || len(g.Ranks) < f.Size) {
			return left
		}
		f.writeFirst()
	}
	return 0
}

// Release writes all lines of a rank, and those that came before them.
func (f *Folder) Release(rank int) {
	if number, found := f.last[rank]; found {
		for f.first <= number && len(f.waiting) > 0 {
			f.writeFirst()
		}
	}
}

// Flush writes all lines.
func (f *Folder) Flush() {
	for len(f.waiting) > 0 {
		f.writeFirst()
	}
}

// writeFirst writes the line that has waited longest.
func (f *Folder) writeFirst() {
	g := f.waiting[0]
	f.waiting = slices.Delete(f.waiting, 0, 1)
	f.first++
	if equal := f.open[g.key]; len(equal) > 1 {
		f.open[g.key] = equal[1:]
	} else {
		delete(f.open, g.key)
	}
	f.bytes -= g.bytes()
	line := g.Line
	if f.Numbers && len(g.Ranks) > 1 {
		line.Text = ranged(g.Text, g.numbers)
	}
	f.Write(line)
	if f.spared+g.memory() <= maxSpare {
		f.spare = append(f.spare, g)
		f.spared += g.memory()
	}
}
