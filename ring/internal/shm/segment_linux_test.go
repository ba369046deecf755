package shm

import (
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
)

// The parts of a segment fill it, are aligned to lines, and do not overlap.
func TestLayOut(t *testing.T) {
	if s := unsafe.Sizeof(pair{}); s != lineSize {
		t.Errorf("a pair has %d bytes", s)
	}
	if s := unsafe.Sizeof(control{}); s%lineSize != 0 {
		t.Errorf("a control has %d bytes", s)
	}
	for ranks := 1; ranks <= 9; ranks++ {
		memory := make([]byte, segmentSize(ranks))
		s := layOut(memory, ranks)
		at := uintptr(lineSize)
		next := func(what string, p unsafe.Pointer, size uintptr) {
			t.Helper()
			check.Equal(t, uintptr(p)-uintptr(unsafe.Pointer(&memory[0])), at, ranks, "ranks:", what, "at")
			at += size
		}
		for _, c := range s.controls {
			next("control", unsafe.Pointer(c), unsafe.Sizeof(control{}))
		}
		for from := range ranks {
			for to := range ranks {
				next("pair", unsafe.Pointer(s.pair(from, to)), unsafe.Sizeof(pair{}))
			}
		}
		for _, p := range s.cells {
			next("cells", p, cells*cellSize)
		}
		at = uintptr(pageUp(int(at)))
		for _, p := range s.staging {
			next("staging", p, slots*slotSize)
		}
		for _, p := range s.outbox {
			next("outbox", p, boxes*boxSize)
		}
		check.That(t, at == uintptr(len(memory)), "%d ranks: %d of %d bytes are used", ranks, at, len(memory))
	}
	size := segmentSize(64)
	check.That(t, size <= 96<<20, "64 ranks take %d MiB", size>>20)
}
