package shm

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	lineSize  = 128       // two cache lines: neighbours are fetched in pairs
	slots     = 4         // per rank
	slotSize  = 256 << 10 // bytes
	cells     = 2         // per rank; see Group.exchange
	cellSize  = 8 << 10   // bytes
	boxes     = 4         // per rank, a power of two; see Group.Swap
	boxSize   = 64 << 10  // bytes
	inline    = 48        // bytes that travel in a counter's own cache line
	nonceSize = 32
)

// control is one rank's counters, each on its own lines. A counter holds the
// number of the last block, counted over all calls, for which the step is over.
type control struct {
	in   counter        // its part of the block is in its slot
	out  counter        // its stripe's result is in its slot
	done counter        // it needs the others' slots no more
	cell [cells]counter // its message is in the cell
	bell counter        // rung for it while it sleeps in a Swap

	signs [slots]uint64                 // sign of the call in each slot; valid when in is
	born  uint64                        // start of the rank's process, since pids are reused
	cpus  unix.CPUSet                   // the rank's affinity
	call  announcement                  // the call that the rank is in
	pid   atomic.Int32                  // pid of the rank
	left  atomic.Uint32                 // 1: it has closed the group
	stage [kinds][classes]atomic.Uint32 // the staging that rank 0 chose for all

	yielding atomic.Uint32 // the processor that the rank yields while it waits, plus 1; 0: none
	located  atomic.Uint32 // the processor on which the rank was lately, plus 1; 0: unknown
	_        [3*lineSize - 8*slots - 64 - 4*kinds*classes - unsafe.Sizeof(unix.CPUSet{})]byte
}

type counter struct {
	value   atomic.Uint32
	waiters atomic.Uint32 // ranks that sleep until value changes
	sign    uint64        // sign of the rank's call; valid when value is
	data    [inline]byte  // a message so small that it fits here; valid when value is
	_       [lineSize - 64]byte
}

// pair is the state of one rank's messages to another; only the sender writes it. All that
// a tiny message needs is on the first cache line.
type pair struct {
	posted atomic.Uint32 // blocks it has put for the other, over all messages
	brief  uint32        // brief of the current message, see briefOf; valid when posted is
	sign   uint64        // sign of the current message
	data   [inline]byte  // all of the message, if it fits
	length uint64        // bytes of the current message
	taken  atomic.Uint32 // blocks it took from the other, over all messages
	_      [lineSize - 76]byte
}

// segment is the mapping.
type segment struct {
	memory   []byte
	controls []*control
	pairs    []pair           // ranks × ranks, by the rank that writes
	cells    []unsafe.Pointer // memory by rank: cells × cellSize bytes
	staging  []unsafe.Pointer // memory by rank: slots × slotSize bytes
	outbox   []unsafe.Pointer // memory by rank: boxes × boxSize bytes
}

// headSize returns the bytes before the large parts, which are staging and outboxes.
func headSize(ranks int) int {
	perRank := int(unsafe.Sizeof(control{})) + ranks*int(unsafe.Sizeof(pair{})) + cells*cellSize
	return pageUp(lineSize + ranks*perRank)
}

func segmentSize(ranks int) int { return headSize(ranks) + ranks*(slots*slotSize+boxes*boxSize) }

func pageUp(n int) int { return (n + 4095) &^ 4095 }

// layOut returns the parts of a mapping of segmentSize(ranks) bytes.
func layOut(memory []byte, ranks int) *segment {
	s := &segment{memory: memory}
	at := lineSize
	next := func(size int) unsafe.Pointer {
		p := unsafe.Pointer(&memory[at])
		at += size
		return p
	}
	for range ranks {
		s.controls = append(s.controls, (*control)(next(int(unsafe.Sizeof(control{})))))
	}
	all := ranks * ranks
	s.pairs = unsafe.Slice((*pair)(next(all*int(unsafe.Sizeof(pair{})))), all)
	for range ranks {
		s.cells = append(s.cells, next(cells*cellSize))
	}
	at = headSize(ranks)
	for range ranks {
		s.staging = append(s.staging, next(slots*slotSize))
	}
	for range ranks {
		s.outbox = append(s.outbox, next(boxes*boxSize))
	}
	return s
}

// pair returns the state of rank from's messages to rank to.
func (s *segment) pair(from, to int) *pair { return &s.pairs[from*len(s.controls)+to] }

func (s *segment) close() error { return unix.Munmap(s.memory) }
