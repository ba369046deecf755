// Command capi exports package ring to C. Built with -buildmode=c-shared it is libring.so; ring.h
// is its header.
//
// A function of ring.c receives a call and refuses it in a forked child, where Go code could hang.
// It calls an exported function here, named goRing…, which converts handles and structs
// (convert.go), calls package ring, and converts the error to a number and a text. Panics become
// errors.
package main

// #include <stdlib.h>
// #include "failure.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/cgo"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/gorun/gorun/ring"
)

func main() {} // never called; buildmode c-shared requires it

// object is the target of a C handle: a communicator, a queue or a device. Handles are of
// runtime/cgo, which never reuses one. An object lives until it is closed and its last request is
// freed.
type object struct {
	failures
	comm     *ring.Comm
	queue    *ring.Queue  // nil unless the object is a queue
	device   *ring.Device // nil unless the object is a device
	requests requests
	trace    trace
	names    names
}

func lookup(handle C.uint64_t) (o *object, err error) {
	defer func() {
		if recover() != nil { // cgo.Handle panics for an invalid handle
			o = nil
			err = missing(handle)
		}
	}()
	return cgo.Handle(handle).Value().(*object), nil
}

// missing returns the error of an invalid handle.
func missing(handle C.uint64_t) error {
	if handle > 0 && uint64(handle) <= atomic.LoadUint64((*uint64)(&C.given)) {
		return fmt.Errorf("%w (%d)", ring.ErrClosed, uint64(handle))
	}
	return invalid("there is no communicator, queue or device %d", uint64(handle))
}

// lookupOpen returns the object of a handle unless it is closed.
func lookupOpen(handle C.uint64_t) (*object, error) {
	o, err := lookup(handle)
	if err == nil && o.requests.closed.Load() {
		err = missing(handle)
	}
	return o, err
}

// what returns the kind of an object, for errors.
func (o *object) what() string {
	switch {
	case o.queue != nil:
		return "queue"
	case o.device != nil:
		return "device"
	}
	return "communicator"
}

func lookupA(what string, handle C.uint64_t) (*object, error) {
	o, err := lookupOpen(handle)
	if err == nil && o.what() != what {
		err = invalid("%d is a %s, not a %s", uint64(handle), o.what(), what)
	}
	return o, err
}

func lookupComm(handle C.ring_comm) (*object, error)     { return lookupA("communicator", handle) }
func lookupQueue(handle C.ring_queue) (*object, error)   { return lookupA("queue", handle) }
func lookupDevice(handle C.ring_device) (*object, error) { return lookupA("device", handle) }

func keep(o *object) C.uint64_t {
	h := uint64(cgo.NewHandle(o))
	o.requests.owner = h
	for given := (*uint64)(&C.given); ; {
		if was := atomic.LoadUint64(given); was >= h || atomic.CompareAndSwapUint64(given, was, h) {
			return C.uint64_t(h)
		}
	}
}

// span converts milliseconds to a duration, without overflow. All negative values are the same.
func span(ms C.int64_t) time.Duration {
	return time.Duration(max(min(int64(ms), math.MaxInt64/int64(time.Millisecond)), -1)) * time.Millisecond
}

// bounded returns a context that ends after ms milliseconds if ms is positive.
func bounded(ms C.int64_t) (context.Context, context.CancelFunc) {
	if ms <= 0 {
		return context.Background(), func() {}
	}
	return context.WithTimeout(context.Background(), span(ms))
}

// getenv reads the present environment: os.Getenv has a copy from when the library was loaded.
func getenv(name string) (string, bool) {
	key := C.CString(name)
	defer C.free(unsafe.Pointer(key))
	value := C.getenv(key)
	return C.GoString(value), value != nil
}

//export goRingVersion
func goRingVersion(text *C.char, size C.size_t) {
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	putText(text, size, version)
}

//export goRingInit
func goRingInit(comm *C.ring_comm, options *C.ring_init_options, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	var o C.ring_init_options
	switch {
	case comm == nil:
		return tell(failure, nil, nowhere("communicator"))
	case options == nil:
	// the struct before epochs
	case options.size < C.sizeof_ring_init_options && options.size != C.size_t(unsafe.Offsetof(o.left_epoch)):
		return tell(failure, nil, invalid("options without their size: set it to sizeof(ring_init_options), "+
			"which is %d", C.sizeof_ring_init_options))
	default:
		o.timeout_ms = options.timeout_ms
		o.stall_ms = options.stall_ms
		if options.size >= C.sizeof_ring_init_options {
			o.left_epoch = options.left_epoch
		}
	}
	if o.left_epoch < 0 || o.left_epoch > math.MaxInt32 {
		return tell(failure, nil, invalid("left_epoch is %d: want that of the ring_info of the communicator that was "+
			"closed, or 0", int64(o.left_epoch)))
	}
	ctx, cancel := bounded(o.timeout_ms)
	defer cancel()
	opts := []ring.Option{ring.WithEnviron(getenv), ring.AfterEpoch(int(o.left_epoch)), ring.WithSockets(hold)}
	if o.stall_ms != 0 {
		opts = append(opts, ring.WithStallReport(span(o.stall_ms), nil))
	}
	c, err := ring.Init(ctx, opts...)
	if err != nil {
		return tell(failure, nil, err)
	}
	*comm = keep(&object{comm: c})
	return C.RING_OK
}

// hold closes a socket in forked children.
func hold(fd int, open bool) {
	now := C.int(0)
	if open {
		now = 1
	}
	C.hold_descriptor(C.int(fd), now)
}

//export goRingClose
func goRingClose(comm C.ring_comm, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupComm(comm)
	if err != nil {
		return tell(failure, nil, err)
	}
	if !o.requests.close() {
		return tell(failure, nil, missing(comm))
	}
	return tell(failure, nil, o.comm.Close())
}

//export goRingGroup
func goRingGroup(comm C.ring_comm, name *C.char, ranks *C.int32_t, count C.size_t, timeout C.int64_t, part *C.ring_comm,
	failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupComm(comm)
	switch {
	case err != nil:
	case part == nil:
		err = nowhere("communicator")
	case name == nil || ranks == nil || uint64(count) > uint64(o.comm.Size()):
		err = invalid("a group needs a name, and 1 to %d ranks", o.comm.Size())
	}
	if err != nil {
		return tell(failure, nil, err)
	}
	members := make([]int, count)
	for i, rank := range unsafe.Slice(ranks, count) {
		members[i] = int(rank)
	}
	ctx, cancel := bounded(timeout)
	defer cancel()
	c, err := ring.Group(ctx, o.comm, C.GoString(name), members)
	if err != nil {
		return tell(failure, o, err)
	}
	*part = keep(&object{comm: c})
	return C.RING_OK
}

//export goRingPrivate
func goRingPrivate(comm C.ring_comm, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupComm(comm)
	if err != nil {
		return tell(failure, nil, err)
	}
	o.comm.Private()
	return C.RING_OK
}

//export goRingAbort
func goRingAbort(comm C.ring_comm, cause *C.char, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupComm(comm)
	if err == nil && cause == nil {
		err = nowhere("cause")
	}
	if err != nil {
		return tell(failure, nil, err)
	}
	o.comm.Abort(errors.New(C.GoString(cause)))
	return C.RING_OK
}

//export goRingWaitsAt
func goRingWaitsAt(handle C.uint64_t, place *C.char, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupOpen(handle)
	switch {
	case err != nil:
	case o.queue != nil:
		o.queue.WaitsAt(C.GoString(place))
	default:
		o.comm.WaitsAt(C.GoString(place))
	}
	return tell(failure, nil, err)
}

//export goRingSplit
func goRingSplit(comm C.ring_comm, color, key C.int32_t, part *C.ring_comm, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupComm(comm)
	if err == nil && part == nil {
		err = nowhere("communicator")
	}
	if err != nil {
		return tell(failure, nil, err)
	}
	c, err := ring.Split(context.Background(), o.comm, int(color), int(key))
	if err != nil {
		return tell(failure, o, err)
	}
	*part = 0
	if c != nil {
		*part = keep(&object{comm: c})
	}
	return C.RING_OK
}

//export goRingInfo
func goRingInfo(comm C.ring_comm, info *C.ring_info, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupComm(comm)
	// the same
	if err == nil && (info == nil || info.size < C.size_t(unsafe.Offsetof(info.first_epoch)) &&
		info.size != C.size_t(unsafe.Offsetof(info.epoch))) {
		err = invalid("a ring_info without its size: set it to sizeof(ring_info), which is %d", C.sizeof_ring_info)
	}
	if err != nil {
		return tell(failure, nil, err)
	}
	c := o.comm
	info.rank = C.int32_t(c.Rank())
	info.ranks = C.int32_t(c.Size())
	info.local_rank = C.int32_t(c.LocalRank())
	info.local_ranks = C.int32_t(c.LocalSize())
	info.cross_rank = C.int32_t(c.CrossRank())
	info.cross_ranks = C.int32_t(c.CrossSize())
	putText(&info.host[0], C.size_t(len(info.host)), c.Host())
	if info.size > C.size_t(unsafe.Offsetof(info.epoch)) {
		info.epoch = C.int32_t(c.Epoch())
	}
	if info.size >= C.sizeof_ring_info { // an older size has padding there, which may be written
		info.first_epoch = C.int32_t(c.FirstEpoch())
	}
	return C.RING_OK
}

//export goRingRun
func goRingRun(comm C.ring_comm, call *C.ring_call, timeout C.int64_t, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupComm(comm)
	if err != nil {
		return tell(failure, nil, err)
	}
	w, err := collective(call, o.comm.Size())
	if err != nil {
		return tell(failure, o, err)
	}
	ctx, cancel := bounded(timeout)
	defer cancel()
	return tell(failure, o, o.comm.Do(ctx, w))
}

//export goRingStart
func goRingStart(comm C.ring_comm, call *C.ring_call, here C.int, id *C.ring_request,
	failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, w, err := started(comm, call, id)
	if err != nil {
		return tell(failure, o, err)
	}
	return tell(failure, o, o.requests.begin(id, here != 0, func() (r request, err error) {
		if here != 0 {
			r.handle, err = o.comm.StartHere(w)
		} else {
			r.handle, err = o.comm.Start(w)
		}
		return r, err
	}))
}

// started converts the arguments of a call on a communicator that is started.
func started(comm C.ring_comm, call *C.ring_call, id *C.ring_request) (*object, ring.Collective, error) {
	o, err := lookupComm(comm)
	if err != nil {
		return nil, ring.Collective{}, err
	}
	if id == nil {
		return o, ring.Collective{}, nowhere("request")
	}
	w, err := collective(call, o.comm.Size())
	return o, w, err
}

// invalid returns the error of wrong arguments.
func invalid(format string, args ...any) error { return fmt.Errorf("ring: "+format, args...) }

// nowhere returns the error of a NULL in place of a result.
func nowhere(what string) error {
	return invalid("there is nowhere to put the %s: its address is NULL", what)
}
