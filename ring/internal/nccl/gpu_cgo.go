//go:build cgo && linux

package nccl

// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// notReady is the result of a query for unfinished work.
const notReady = 600

// GPU is a GPU's primary context, which is the one that PyTorch and the CUDA runtime use too.
type GPU struct {
	driver  *driver
	ordinal int
	gpu     C.ring_gpu
}

// Stream and Event are CUstream and CUevent, which the CUDA runtime's handles are as well.
type (
	Stream uintptr
	Event  uintptr
)

// OpenGPU retains the context of the GPU with that number among the visible ones.
func OpenGPU(lookup func(string) (string, bool), ordinal int) (*GPU, error) {
	d, err := loadDriver(lookup)
	if err != nil {
		return nil, err
	}
	g := &GPU{driver: d, ordinal: ordinal}
	var devices C.int
	if rc := C.ring_gpu_open(d.table, C.int(ordinal), &g.gpu, &devices); rc != 0 {
		err := g.fault("open it", rc)
		if int(devices) <= ordinal {
			err = fmt.Errorf("%w: this process may see %d", err, int(devices))
		}
		d.free()
		return nil, err
	}
	return g, nil
}

// Close releases the context. All its memory, streams and events must have been freed.
func (g *GPU) Close() error {
	defer g.driver.free()
	return g.fault("give it back", C.ring_gpu_close(g.gpu, C.int(g.ordinal)))
}

func (g *GPU) fault(doing string, rc C.int) error {
	if rc == 0 {
		return nil
	}
	var name *C.char
	C.ring_cuda_error_name(g.driver.table, rc, &name)
	if name != nil {
		return fmt.Errorf("GPU %d: %s: %s", g.ordinal, doing, C.GoString(name))
	}
	return fmt.Errorf("GPU %d: %s: CUDA error %d", g.ordinal, doing, int(rc))
}

// Alloc allocates n bytes of the GPU's memory.
func (g *GPU) Alloc(n int) (uintptr, error) {
	var at C.uint64_t
	err := g.fault(fmt.Sprintf("take %d bytes of its memory", n), C.ring_alloc(g.gpu, C.size_t(n), &at))
	return uintptr(at), err
}

// Free frees memory of the GPU.
func (g *GPU) Free(at uintptr) error {
	return g.fault("give back memory", C.ring_free(g.gpu, C.uint64_t(at)))
}

// AllocHost allocates n bytes of pinned host memory, which the GPU can access.
func (g *GPU) AllocHost(n int) (at unsafe.Pointer, err error) {
	err = g.fault(fmt.Sprintf("pin %d bytes of host memory", n), C.ring_host_alloc(g.gpu, C.size_t(n), &at))
	return at, err
}

// FreeHost frees memory of AllocHost.
func (g *GPU) FreeHost(at unsafe.Pointer) error {
	return g.fault("give back host memory", C.ring_host_free(g.gpu, at))
}

// CopyIn enqueues a copy from pinned host memory to the GPU, and e after it.
func (g *GPU) CopyIn(dst uintptr, src unsafe.Pointer, n int, s Stream, e Event) error {
	return g.fault("copy to it", C.ring_copy_in(g.gpu, C.uint64_t(dst), src, C.size_t(n), C.uintptr_t(s),
		C.uintptr_t(e)))
}

// CopyOut enqueues a copy from the GPU to pinned host memory, and e after it.
func (g *GPU) CopyOut(dst unsafe.Pointer, src uintptr, n int, s Stream, e Event) error {
	return g.fault("copy from it", C.ring_copy_out(g.gpu, dst, C.uint64_t(src), C.size_t(n), C.uintptr_t(s),
		C.uintptr_t(e)))
}

// NewStream makes a stream that does not wait for the default one.
func (g *GPU) NewStream() (Stream, error) {
	var s C.uintptr_t
	err := g.fault("make a stream", C.ring_stream_new(g.gpu, &s))
	return Stream(s), err
}

// FreeStream ends a stream.
func (g *GPU) FreeStream(s Stream) error {
	return g.fault("end a stream", C.ring_stream_free(g.gpu, C.uintptr_t(s)))
}

// StreamDone reports whether all work on s is done.
func (g *GPU) StreamDone(s Stream) (bool, error) {
	return g.done("ask for a stream", C.ring_stream_query(g.gpu, C.uintptr_t(s)))
}

// NewEvent makes an event, which is done at first.
func (g *GPU) NewEvent() (Event, error) {
	var e C.uintptr_t
	err := g.fault("make an event", C.ring_event_new(g.gpu, &e))
	return Event(e), err
}

// FreeEvent ends an event.
func (g *GPU) FreeEvent(e Event) error {
	return g.fault("end an event", C.ring_event_free(g.gpu, C.uintptr_t(e)))
}

// Record makes e done when all work enqueued on s so far is done.
func (g *GPU) Record(e Event, s Stream) error {
	return g.fault("record an event", C.ring_event_record(g.gpu, C.uintptr_t(e), C.uintptr_t(s)))
}

// EventDone reports whether e is done.
func (g *GPU) EventDone(e Event) (bool, error) {
	return g.done("ask for an event", C.ring_event_query(g.gpu, C.uintptr_t(e)))
}

func (g *GPU) done(doing string, rc C.int) (bool, error) {
	if rc == notReady {
		return false, nil
	}
	return rc == 0, g.fault(doing, rc)
}
