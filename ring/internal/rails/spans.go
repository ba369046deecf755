package rails

import "slices"

// span is a piece of the stream.
type span struct {
	off  uint64
	size int
}

func (s span) end() uint64 { return s.off + uint64(s.size) }

// spans is pieces of the stream in order, none overlapping.
type spans []span

// add inserts the parts of s that are not there yet.
func (l *spans) add(s span) {
	at, _ := slices.BinarySearchFunc(*l, s.off, func(e span, off uint64) int {
		if e.end() < off {
			return -1
		}
		return 1
	}) // the first that ends at or behind the start of s
	last := at
	for last < len(*l) && (*l)[last].off <= s.end() {
		end := max(s.end(), (*l)[last].end())
		s.off = min(s.off, (*l)[last].off)
		s.size = int(end - s.off)
		last++
	}
	*l = slices.Replace(*l, at, last, s)
}

// drop removes what is before off.
func (l *spans) drop(off uint64) {
	gone := 0
	for gone < len(*l) && (*l)[gone].end() <= off {
		gone++
	}
	*l = slices.Delete(*l, 0, gone)
	if len(*l) > 0 && (*l)[0].off < off {
		(*l)[0] = span{off, int((*l)[0].end() - off)}
	}
}

// total returns how many bytes the spans have.
func (l spans) total() int {
	sum := 0
	for _, s := range l {
		sum += s.size
	}
	return sum
}
