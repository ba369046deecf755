package recorder

import "unsafe"

const (
	memfdName = "gorun-record"
	magic     = 0x726f6365526e7547
	version   = 1

	lanes   = 8  // communicators
	history = 64 // calls of a communicator
	tensors = 64 // submitted to queues, and not done
)

// page is the memory. Each field has one writer at a time. Ticks are times of the clock that the
// header names.
type page struct {
	header  header
	lanes   [lanes]lane
	tensors [tensors]tensor
}

type header struct {
	magic            uint64
	version, clock   uint32
	pid, rank        uint32 // pid is the rank's own number for itself
	size, epoch      uint32
	ticks, monotonic uint64 // of one moment: they relate the two clocks
	joined           uint64 // ticks when the rank had joined its job; 0: it joins
	pending          uint64 // tensors submitted and not done, also those for which there was no room
	past             totals // of communicators that were closed
	// descriptors of a Go program: a byte written to one asks for the goroutines' stacks; the other
	// has them. 0: none
	ask, answer uint32
	answered    uint64 // how often it was
	waited      uint64 // ticks in which tensors were pending
	waits       uint64 // ticks when the first of those pending now was submitted; 0: none is
	_           [11]uint64
}

type totals struct{ calls, bytes, ticks uint64 }

// lane is one communicator.
type lane struct {
	id     uint64 // equal on all its ranks; 0: it is free
	size   uint64 // ranks
	count  uint64 // calls begun
	totals totals // of calls that have ended
	_      [2]uint64
	calls  [history]call // call n, from 1, is at n%history
}

type call struct {
	check    uint64 // its number in the lane, written last and cleared first
	seq      uint64 // its number in the communicator
	began    uint64 // ticks
	ended    uint64 // 0: it goes on
	bytes    uint64
	kind     uint8
	length   uint8  // of name
	_        uint16 //
	more     uint32 // tensors besides the named one
	to, from int32  // of a message; -1 is none
	name     [nameSize]byte
}

const nameSize = 72

type tensor struct {
	check  uint64 // unlike that of every other use; 0: it is free
	queue  uint64 // id of its communicator
	began  uint64 // ticks
	bytes  uint64
	kind   uint8
	length uint8 // of name
	_      uint16
	_      uint32
	name   [88]byte
}

const pageSize = int(unsafe.Sizeof(page{}))
