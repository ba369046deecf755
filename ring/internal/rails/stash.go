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

// stash keeps received pieces of the stream that come after missing ones, in order, none
// overlapping.
type stash []piece

type piece struct {
	off  uint64
	data []byte
}

// insert copies the parts of data that the stash lacks.
func (s *stash) insert(off uint64, data []byte) {
	for at := 0; len(data) > 0; at++ {
		free := len(data) // bytes before the next piece
		if at < len(*s) {
			next := (*s)[at]
			end := next.off + uint64(len(next.data))
			if end <= off {
				continue
			}
			if next.off <= off { // it has the start of data
				skip := min(uint64(len(data)), end-off)
				off += skip
				data = data[skip:]
				continue
			}
			free = int(min(uint64(free), next.off-off))
		}
		*s = slices.Insert(*s, at, piece{off, slices.Clone(data[:free])})
		off += uint64(free)
		data = data[free:]
	}
}

// take copies the bytes from next on into b, drops everything before their end, and returns how
// many there were.
func (s *stash) take(next uint64, b []byte) int {
	n := 0
	used := 0
	for ; used < len(*s) && n < len(b); used++ {
		p := &(*s)[used]
		at := next + uint64(n)
		if p.off > at {
			break
		}
		if skip := at - p.off; skip < uint64(len(p.data)) {
			got := copy(b[n:], p.data[skip:])
			n += got
			if rest := skip + uint64(got); rest < uint64(len(p.data)) {
				p.off += rest
				p.data = p.data[rest:]
				break
			}
		}
	}
	*s = slices.Delete(*s, 0, used)
	return n
}
