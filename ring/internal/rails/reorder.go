package rails

import "slices"

// reorderBuffer keeps received pieces of the stream that come after missing ones, in order, none
// overlapping.
type reorderBuffer []piece

type piece struct {
	off  uint64
	data []byte
}

// insert copies the parts of data that the buffer lacks.
func (s *reorderBuffer) insert(off uint64, data []byte) {
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
func (s *reorderBuffer) take(next uint64, b []byte) int {
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
