package main

// #include <stdlib.h>
// #include "told.h"
import "C"

import (
	"context"
	"fmt"
	"os"
	"runtime/cgo"
	"time"
	"unsafe"

	"github.com/gorun/gorun/ring"
)

//export goRingQueueOpen
func goRingQueueOpen(comm C.ring_comm, options *C.ring_queue_options, queue *C.ring_queue, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, err := lookupComm(comm)
	if err == nil && options != nil && options.size < C.sizeof_ring_queue_options {
		err = invalid("options without their size: set it to sizeof(ring_queue_options), which is %d", C.sizeof_ring_queue_options)
	}
	if err != nil {
		return tell(told, nil, err)
	}
	q, err := ring.NewQueue(context.Background(), o.comm, queueOptions(options)...)
	if err != nil {
		return tell(told, o, err)
	}
	*queue = keep(&object{comm: o.comm, queue: q})
	return C.RING_OK
}

func queueOptions(options *C.ring_queue_options) (opts []ring.QueueOption) {
	if options == nil {
		return nil
	}
	if options.fusion_bytes >= 0 {
		opts = append(opts, ring.WithFusion(int64(options.fusion_bytes)))
	}
	if options.cache_names >= 0 {
		opts = append(opts, ring.WithCache(int(options.cache_names)))
	}
	if options.stall_ms > 0 {
		opts = append(opts, ring.WithStall(time.Duration(options.stall_ms)*time.Millisecond, nil))
	}
	return opts
}

//export goRingQueueClose
func goRingQueueClose(queue C.ring_queue, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, err := lookupQueue(queue)
	if err != nil {
		return tell(told, nil, err)
	}
	err = o.queue.Close()
	if cerr := o.closeTrace(); err == nil {
		err = cerr
	}
	cgo.Handle(queue).Delete()
	return tell(told, nil, err)
}

//export goRingSubmit
func goRingSubmit(queue C.ring_queue, name *C.char, call *C.ring_call, id *C.ring_request, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, w, err := submission(queue, name, call)
	if err != nil {
		return tell(told, o, err)
	}
	t, err := o.queue.Submit(C.GoString(name), w)
	if err != nil {
		return tell(told, o, err)
	}
	*id = o.requests.add(request{ticket: t})
	return C.RING_OK
}

// submission is what a call on a queue is about.
func submission(queue C.ring_queue, name *C.char, call *C.ring_call) (*object, ring.Collective, error) {
	o, err := lookupQueue(queue)
	if err != nil {
		return nil, ring.Collective{}, err
	}
	if name == nil {
		return o, ring.Collective{}, invalid("the name is NULL")
	}
	if err := o.requests.room(1); err != nil {
		return o, ring.Collective{}, err
	}
	w, err := collective(call, o.comm.Size())
	return o, w, err
}

//export goRingSubmitGroup
func goRingSubmitGroup(queue C.ring_queue, count C.size_t, names **C.char, calls *C.ring_call, ids *C.ring_request, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, err := lookupQueue(queue)
	if err != nil {
		return tell(told, nil, err)
	}
	if count > placeMask {
		return tell(told, o, invalid("a group of %d", uint64(count)))
	}
	if err := o.requests.room(int(count)); err != nil {
		return tell(told, o, err)
	}
	keys := make([]string, count)
	work := make([]ring.Collective, count)
	for i, name := range unsafe.Slice(names, count) {
		if name == nil {
			return tell(told, o, invalid("name %d of the group is NULL", i))
		}
		keys[i] = C.GoString(name)
	}
	for i := range work {
		call := &unsafe.Slice(calls, count)[i]
		if work[i], err = collective(call, o.comm.Size()); err != nil {
			return tell(told, o, fmt.Errorf("%w (tensor %.80q)", err, keys[i]))
		}
	}
	tickets, err := o.queue.SubmitGroup(nil, keys, work)
	if err != nil {
		return tell(told, o, err)
	}
	for i, t := range tickets {
		unsafe.Slice(ids, count)[i] = o.requests.add(request{ticket: t})
	}
	return C.RING_OK
}

// result is what came of a call with parts of unlike lengths, in memory of C.
type result struct {
	data   unsafe.Pointer
	count  int
	counts unsafe.Pointer // of int64_t, one for each rank
	size   int            // of an element
}

// room makes the memory. It is called by the queue, once.
func (r *result) room(counts []int) ring.Buffer {
	r.counts = C.malloc(C.size_t(len(counts)) * 8)
	copy(unsafe.Slice((*int)(r.counts), len(counts)), counts)
	for _, n := range counts {
		r.count += n
	}
	r.data = C.malloc(C.size_t(max(r.count*r.size, 1)))
	return ring.Buffer{Ptr: r.data, Len: r.count}
}

func (r *result) free() {
	if r != nil {
		C.free(r.data)
		C.free(r.counts)
	}
}

//export goRingSubmitV
func goRingSubmitV(queue C.ring_queue, name *C.char, call *C.ring_call, id *C.ring_request, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, w, err := submission(queue, name, call)
	if err != nil {
		return tell(told, o, err)
	}
	e, _ := elementOf(call.dtype)
	r := &result{size: e.size}
	t, err := o.queue.SubmitV(C.GoString(name), w, r.room)
	if err != nil {
		return tell(told, o, err)
	}
	*id = o.requests.add(request{ticket: t, result: r})
	return C.RING_OK
}

//export goRingResult
func goRingResult(id C.ring_request, data *unsafe.Pointer, count *C.uint64_t, counts **C.int64_t, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	_, r, err := lookupRequest(id)
	switch {
	case err != nil:
	case r.result == nil:
		err = invalid("the request has no result: it is not one of ring_submit_v")
	case !r.done():
		err = invalid("the request is not over: wait for it")
	case r.failed != "":
		err = invalid("the request has failed, and has no result")
	}
	if err != nil {
		return tell(told, nil, err)
	}
	*data, *count, *counts = r.result.data, C.uint64_t(r.result.count), (*C.int64_t)(r.result.counts)
	return C.RING_OK
}

//export goRingTimelineStart
func goRingTimelineStart(queue C.ring_queue, path *C.char, marks C.int, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, err := lookupQueue(queue)
	if err == nil && path == nil {
		err = invalid("the timeline's path is NULL")
	}
	if err != nil {
		return tell(told, nil, err)
	}
	if err := o.closeTrace(); err != nil {
		return tell(told, o, err)
	}
	f, err := os.Create(C.GoString(path))
	if err != nil {
		return tell(told, o, fmt.Errorf("ring: timeline: %w", err))
	}
	if err := o.queue.StartTimeline(f, ring.TimelineOptions{MarkCycles: marks != 0}); err != nil {
		f.Close()
		return tell(told, o, err)
	}
	o.trace = f
	return C.RING_OK
}

//export goRingTimelineStop
func goRingTimelineStop(queue C.ring_queue, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, err := lookupQueue(queue)
	if err != nil {
		return tell(told, nil, err)
	}
	return tell(told, o, o.closeTrace())
}

// closeTrace ends the timeline, if there is one.
func (o *object) closeTrace() error {
	if o.trace == nil {
		return nil
	}
	err := o.queue.StopTimeline()
	if cerr := o.trace.Close(); err == nil {
		err = cerr
	}
	o.trace = nil
	return err
}
