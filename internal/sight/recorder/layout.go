package recorder

import "unsafe"

const (
	memfdName = "gorun-record"
	magic     = 0x726f6365526e7547
	version   = 1

	lanes   = 8  // communicators
	history = 64 // calls of a communicator
	tensors = 64 // tensors submitted to queues and not done
	maxName = 88 // bytes of a tensor's name
)

// page is the layout of the shared memory. Each field has one writer at a time. Ticks are times of
// the clock that the header names.
type page struct {
	header  header
	lanes   [lanes]lane
	tensors [tensors]tensor
}

type header struct {
	magic            uint64
	version, clock   uint32
	pid, rank        uint32 // process ID in the rank's own namespace, and rank
	size, epoch      uint32
	ticks, monotonic uint64 // times of one moment, which relate the two clocks
	joined           uint64 // ticks when the rank had joined its job; 0: it has not
	pending          uint64 // number of tensors submitted and not done, including those that have no slot
	past             totals // totals of closed communicators
	// descriptors of a Go program: a byte written to one asks for the goroutines' stacks; the other
	// has them. 0: none
	ask, answer uint32
	answered    uint64 // number of answered requests
	waited      uint64 // ticks during which tensors were pending
	waits       uint64 // ticks at the submission of the oldest pending tensor; 0: none
	_           [11]uint64
}

type totals struct{ calls, bytes, ticks uint64 }

// lane is the record of one communicator.
type lane struct {
	id     uint64 // id equal on all ranks of the communicator; 0: free
	size   uint64 // ranks
	count  uint64 // calls begun
	totals totals // totals of calls that have ended
	_      [2]uint64
	calls  [history]call // calls: call n, from 1, is at n%history
}

type call struct {
	check    uint64 // number of the call in the lane, written last and cleared first
	seq      uint64 // number of the call in the communicator
	began    uint64 // ticks
	ended    uint64 // ticks; 0: still running
	bytes    uint64
	kind     uint8
	length   uint8 // length of name
	_        uint16
	more     uint32 // tensors besides the named one
	to, from int32  // peers of a message; -1: none
	name     [nameSize]byte
}

const nameSize = 72

type tensor struct {
	check  uint64 // number unique to this use of the slot; 0: free
	queue  uint64 // id of the queue's communicator
	began  uint64 // ticks
	bytes  uint64
	kind   uint8
	length uint8 // length of name
	_      uint16
	_      uint32
	name   [maxName]byte
}

const pageSize = int(unsafe.Sizeof(page{}))
