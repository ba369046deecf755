package rails

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// text is a stream; byte i follows from i.
func text(off uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		at := off + uint64(i)
		b[i] = byte(at ^ at>>8)
	}
	return b
}

func TestReorderBuffer(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		var s reorderBuffer
		next := uint64(rng.IntN(2)) * (blockSize - 1500) // both inside of a block and over the end of one
		there := map[uint64]bool{}
		for range 60 {
			off := next + uint64(rng.IntN(400))
			n := 1 + rng.IntN(100)
			s.insert(off, text(off, n))
			for i := range n {
				there[off+uint64(i)] = true
			}
			b := make([]byte, rng.IntN(150))
			got := s.take(next, b)
			must.That(t, bytes.Equal(b[:got], text(next, got)), "other bytes at %d", next)
			for i := range got {
				must.That(t, there[next+uint64(i)], "byte %d was not received", next+uint64(i))
			}
			next += uint64(got)
			must.That(t, got == len(b) || !there[next], "bytes that are there are not taken")
			if got < len(b) { // one that comes by itself
				next++
			}
		}
		must.That(t, len(s.blocks) <= 2 && s.take(next+2*blockSize, nil) == 0 && s.empty(), "%d blocks", len(s.blocks))
	}
}

// The other rank chooses the pieces: the buffer's memory and work are those of their bytes.
func TestReorderBufferOfManyPieces(t *testing.T) {
	const end = 2 * blockSize
	whole := text(0, end)
	allocated := testing.AllocsPerRun(1, func() {
		var s reorderBuffer
		for off := end - 1; off > 0; off -= 2 {
			s.insert(uint64(off), whole[off:off+1])
		}
		must.That(t, s.take(0, make([]byte, 1)) == 0, "a missing byte is taken")
		for off := 0; off < end; off += 2 {
			s.insert(uint64(off), whole[off:off+1])
		}
		all := make([]byte, end+1)
		must.That(t, s.take(0, all) == end && bytes.Equal(all[:end], whole), "other bytes")
	})
	check.That(t, allocated < 100, "%v pieces of memory for %d bytes", allocated, end)
}

// Messages that come early take no new memory for each, nor does a burst keep what it took.
func TestReorderBufferReusesMemory(t *testing.T) {
	var s reorderBuffer
	early := text(0, 2*blockSize-1)
	all := make([]byte, 2*blockSize)
	next := uint64(0)
	allocated := testing.AllocsPerRun(100, func() {
		s.insert(next+1, early)
		must.Equal(t, s.take(next, all), 0, "a missing byte is taken")
		s.insert(next, early[:1])
		must.Equal(t, s.take(next, all), len(all), "bytes taken")
		next += uint64(len(all))
	})
	check.That(t, allocated == 0, "%v pieces of memory for a message", allocated)
	for off := uint64(1); off < maxWindow-blockSize; off += blockSize {
		s.insert(next+off, early[:blockSize])
	}
	s.drop(next + maxWindow)
	check.That(t, s.empty() && len(s.free) == maxFree, "%d blocks are kept", len(s.free))
}

func TestSpans(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var l spans
		var set [600]bool
		for range 40 {
			off := rng.IntN(500)
			n := 1 + rng.IntN(60)
			l.add(span{uint64(off), n})
			for i := range n {
				set[off+i] = true
			}
			if rng.IntN(4) == 0 {
				cut := rng.IntN(300)
				l.drop(uint64(cut))
				clear(set[:cut])
			}
			var got [600]bool
			last := -1
			for _, s := range l {
				must.That(t, int(s.off) > last, "%v touch", l)
				last = int(s.end())
				for i := range s.size {
					got[int(s.off)+i] = true
				}
			}
			must.That(t, got == set, "%v", l)
		}
	}
}

func TestWindow(t *testing.T) {
	var w window
	must.That(t, w.room() == 0 && w.grow() && w.room() == minWindow, "room for %d", w.room())
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		n := min(rng.IntN(200<<10), w.room())
		w.add(text(w.end, n))
		if rng.IntN(500) == 0 {
			w.grow()
		}
		off := w.acked + uint64(rng.IntN(int(w.end-w.acked)+1))
		size := rng.IntN(int(w.end-off) + 1)
		first, second := w.at(off, size)
		must.That(t, bytes.Equal(append(bytes.Clone(first), second...), text(off, size)), "other bytes at %d", off)
		w.acked += uint64(rng.IntN(int(w.end-w.acked) + 1))
	}
	for w.grow() {
	}
	check.Equal(t, len(w.memory), maxWindow, "it grows to")
}

// A header that passes the check leads to no offset outside the windows.
func FuzzHeader(f *testing.F) {
	f.Add(make([]byte, headerSize), uint64(0), uint64(0))
	f.Add(bytes.Repeat([]byte{255}, headerSize), uint64(1<<40), uint64(5))
	f.Fuzz(func(t *testing.T, b []byte, next, sent uint64) {
		next %= 1 << 60
		if len(b) < headerSize {
			return
		}
		h := decodeHeader(b)
		var again [headerSize]byte
		h.encode(&again)
		check.That(t, bytes.Equal(again[:], b[:headerSize]), "%x becomes %x", b[:headerSize], again)
		if h.check(next, sent) != nil {
			return
		}
		check.That(t, h.size >= 0 && h.size <= maxSegment && h.off+uint64(h.size) >= h.off &&
			h.off+uint64(h.size) <= next+maxWindow && h.ack <= sent, "%+v passes", h)
	})
}
