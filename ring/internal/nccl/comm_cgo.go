//go:build cgo && linux

package nccl

// #include "shim.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// Comm is a communicator. Only one of its methods runs at a time. Those that may fail keep their
// thread, since NCCL keeps the description of its last error for each thread.
type Comm struct {
	lib  *Library
	gpu  C.ring_gpu
	comm C.uintptr_t
	cuda C.int  // result of the last call; reused to avoid allocations
	last string // NCCL's description of the last error that State returned
}

// Init begins to make a communicator of n ranks on g. It is done when [Comm.State] is no longer
// [InProgress]. A nil g is an error. A Comm that is returned with an error must be aborted.
func (l *Library) Init(g *GPU, n int, id [IDSize]byte, rank int) (*Comm, error) {
	c := &Comm{lib: l}
	if g != nil {
		c.gpu = g.gpu
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := Result(C.ring_nccl_init(c.gpu, l.table, &c.comm, C.int(n), unsafe.Pointer(&id[0]), C.int(rank),
		C.int(l.Version), &c.cuda))
	if r == Success || r == InProgress {
		return c, nil
	}
	err := l.fault("init", r, c.cuda, l.lastError(0))
	if c.comm == 0 {
		return nil, err
	}
	return c, err
}

// State returns [Success], [InProgress], or the reason why the communicator must be aborted.
func (c *Comm) State() Result {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := Result(C.ring_nccl_state(c.gpu, c.lib.table, c.comm, &c.cuda))
	if r != Success && r != InProgress {
		c.last = c.lib.lastError(c.comm)
	}
	return r
}

// Launch enqueues steps on s, as one group, and e after them. When it returns [InProgress] they are
// enqueued as soon as State is [Success], and e is not.
func (c *Comm) Launch(steps []Step, s Stream, e Event) (Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r := Result(C.ring_nccl_launch(c.gpu, c.lib.table, c.comm, (*C.ring_step)(unsafe.Pointer(unsafe.SliceData(steps))),
		C.int(len(steps)), C.uintptr_t(s), C.uintptr_t(e), &c.cuda))
	if r == Success || r == InProgress {
		return r, nil
	}
	return r, c.lib.fault("launch", r, c.cuda, c.lib.lastError(c.comm))
}

// Fault returns the last State as an error.
func (c *Comm) Fault(doing string, r Result) error { return c.lib.fault(doing, r, 0, c.last) }

// Finalize waits for all launched steps in the background. It is done when State is no longer
// [InProgress].
func (c *Comm) Finalize() Result {
	if c.lib.table.ncclCommFinalize == nil {
		return Success
	}
	return Result(C.ring_nccl_end(c.gpu, c.lib.table.ncclCommFinalize, c.comm, &c.cuda))
}

// Destroy ends a communicator that was finalized.
func (c *Comm) Destroy() error { return c.end("destroy", c.lib.table.ncclCommDestroy) }

// Abort ends a communicator and its launched steps at once.
func (c *Comm) Abort() error { return c.end("abort", c.lib.table.ncclCommAbort) }

func (c *Comm) end(doing string, fn *[0]byte) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if r := Result(C.ring_nccl_end(c.gpu, fn, c.comm, &c.cuda)); r != Success && r != InProgress {
		return c.lib.fault(doing, r, c.cuda, c.lib.lastError(0))
	}
	return nil
}

// The layouts of a step in Go and in C are the same.
const (
	_ = uint(unsafe.Sizeof(Step{}) - C.sizeof_ring_step)
	_ = uint(C.sizeof_ring_step - unsafe.Sizeof(Step{}))
)
