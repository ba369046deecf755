package rails

import "math/bits"

// reorderBuffer keeps received bytes of the stream that come after missing ones. It keeps them in
// blocks of one size: the other rank chooses in how many pieces they come, and in which order.
type reorderBuffer struct {
	blocks map[uint64]*block // by offset in blocks
	first  uint64            // there is no block before
	came   uint64            // bytes that were inserted so far
	free   []*block          // blocks without bytes, for use again
}

const (
	blockSize = 64 << 10
	maxFree   = 16 // blocks that are kept for use again
)

// block is a part of the stream.
type block struct {
	data [blockSize]byte
	have [blockSize / 64]uint64 // a bit for each byte that was received
}

// empty reports whether the buffer has nothing.
func (s *reorderBuffer) empty() bool { return len(s.blocks) == 0 }

// insert copies data.
func (s *reorderBuffer) insert(off uint64, data []byte) {
	if s.blocks == nil {
		s.blocks = map[uint64]*block{}
	}
	if s.empty() {
		s.first = off / blockSize
	}
	s.came += uint64(len(data))
	for len(data) > 0 {
		number := off / blockSize
		b := s.blocks[number]
		if b == nil {
			b = s.unused()
			s.blocks[number] = b
			s.first = min(s.first, number)
		}
		at := int(off % blockSize)
		n := copy(b.data[at:], data)
		b.mark(at, n)
		off += uint64(n)
		data = data[n:]
	}
}

// take copies the bytes from next on into b, drops everything before their end, and returns how
// many there were.
func (s *reorderBuffer) take(next uint64, b []byte) int {
	n := 0
	for n < len(b) {
		s.drop(next)
		one := s.blocks[next/blockSize]
		if one == nil {
			break
		}
		at := int(next % blockSize)
		got := copy(b[n:], one.data[at:at+one.run(at, len(b)-n)])
		if got == 0 {
			break
		}
		n += got
		next += uint64(got)
	}
	s.drop(next)
	return n
}

// drop forgets the blocks before off.
func (s *reorderBuffer) drop(off uint64) {
	for ; s.first < off/blockSize && !s.empty(); s.first++ {
		if b := s.blocks[s.first]; b != nil && len(s.free) < maxFree {
			clear(b.have[:])
			s.free = append(s.free, b)
		}
		delete(s.blocks, s.first)
	}
}

// unused returns a block without bytes.
func (s *reorderBuffer) unused() *block {
	last := len(s.free) - 1
	if last < 0 {
		return &block{}
	}
	b := s.free[last]
	s.free = s.free[:last]
	return b
}

// mark records that n bytes were received.
func (b *block) mark(at, n int) {
	for end := at + n; at < end; {
		bit := at % 64
		count := min(64-bit, end-at)
		b.have[at/64] |= (^uint64(0) >> (64 - count)) << bit
		at += count
	}
}

// run returns how many of the bytes from at on were received without a gap, up to most.
func (b *block) run(at, most int) int {
	end := min(at+most, blockSize)
	for now := at; now < end; {
		bit := now % 64
		count := bits.TrailingZeros64(^(b.have[now/64] >> bit))
		now += count
		if count < 64-bit {
			return min(now, end) - at
		}
	}
	return end - at
}
