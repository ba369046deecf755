package main

// #include <stdlib.h>
// #include <string.h>
// #include "failure.h"
import "C"

import (
	"context"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/ring"
)

//export goRingQueueOpen
func goRingQueueOpen(comm C.ring_comm, options *C.ring_queue_options, queue *C.ring_queue,
	failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupComm(comm)
	switch {
	case err != nil:
	case queue == nil:
		err = nowhere("queue")
	case options != nil && options.size < C.sizeof_ring_queue_options:
		err = invalid("options without their size: set it to sizeof(ring_queue_options), which is %d",
			C.sizeof_ring_queue_options)
	}
	if err != nil {
		return tell(failure, nil, err)
	}
	q, err := ring.NewQueue(context.Background(), o.comm, queueOptions(options)...)
	if err != nil {
		return tell(failure, o, err)
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
		opts = append(opts, ring.WithStall(span(options.stall_ms), nil))
	}
	return opts
}

//export goRingQueueClose
func goRingQueueClose(queue C.ring_queue, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupQueue(queue)
	if err != nil {
		return tell(failure, nil, err)
	}
	if !o.requests.close() {
		return tell(failure, nil, missing(queue))
	}
	err = o.queue.Close()
	if cerr := o.trace.end(o.queue); err == nil {
		err = cerr
	}
	return tell(failure, nil, err)
}

//export goRingSubmit
func goRingSubmit(queue C.ring_queue, name *C.char, call *C.ring_call, here C.int, id *C.ring_request,
	failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, key, w, err := submission(queue, name, call, id)
	if err != nil {
		return tell(failure, o, err)
	}
	return tell(failure, o, o.requests.begin(id, here != 0, func() (r request, err error) {
		if here != 0 {
			r.ticket, err = o.queue.SubmitHere(key, w)
		} else {
			r.ticket, err = o.queue.Submit(key, w)
		}
		return r, err
	}))
}

//export goRingJoin
func goRingJoin(queue C.ring_queue, last *C.int32_t, id *C.ring_request, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupQueue(queue)
	if err == nil && id == nil {
		err = invalid("the request is NULL")
	}
	if err != nil {
		return tell(failure, nil, err)
	}
	return tell(failure, o, o.requests.begin(id, false, func() (request, error) {
		j, err := o.queue.Join()
		return request{joining: j, last: last}, err
	}))
}

// submission holds the arguments of a call on a queue.
func submission(queue C.ring_queue, name *C.char, call *C.ring_call, id *C.ring_request) (*object, string,
	ring.Collective, error) {
	o, err := lookupQueue(queue)
	if err != nil {
		return nil, "", ring.Collective{}, err
	}
	if id == nil {
		return o, "", ring.Collective{}, nowhere("request")
	}
	key, err := o.names.name(name)
	if err != nil {
		return o, "", ring.Collective{}, err
	}
	w, err := collective(call, o.comm.Size())
	return o, key, w, err
}

//export goRingSubmitGroup
func goRingSubmitGroup(queue C.ring_queue, count C.size_t, keys **C.char, calls *C.ring_call, ids *C.ring_request,
	failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	return submitGroup(queue, count, keys, calls, ids, failure,
		func(q *ring.Queue, texts []string, work []ring.Collective) ([]ring.Ticket, error) {
			return q.SubmitGroup(nil, texts, work)
		})
}

// submitGroup submits calls together by the function submit.
func submitGroup(queue C.ring_queue, count C.size_t, keys **C.char, calls *C.ring_call, ids *C.ring_request,
	failure *C.ring_failure,
	submit func(*ring.Queue, []string, []ring.Collective) ([]ring.Ticket, error)) C.int {
	o, err := lookupQueue(queue)
	switch {
	case err != nil:
		return tell(failure, nil, err)
	case count == 0:
		return C.RING_OK
	case count > slotMask:
		return tell(failure, o, invalid("a group of %d", uint64(count)))
	case keys == nil || calls == nil:
		return tell(failure, o, invalid("the group's names or calls are NULL"))
	case ids == nil:
		return tell(failure, o, nowhere("requests"))
	}
	texts, work, err := o.group(unsafe.Slice(keys, count), calls)
	if err != nil {
		return tell(failure, o, err)
	}
	slots := make([]C.ring_request, 0, count)
	for range count {
		slot, err := o.requests.take()
		if err != nil {
			o.requests.giveBack(slots...)
			return tell(failure, o, err)
		}
		slots = append(slots, slot)
	}
	tickets, err := submit(o.queue, texts, work)
	if err != nil {
		o.requests.giveBack(slots...)
		return tell(failure, o, err)
	}
	for i, t := range tickets {
		o.requests.fill(slots[i], request{ticket: t})
	}
	copy(unsafe.Slice(ids, count), slots)
	return C.RING_OK
}

// callOf returns one call of an array. A program built for a later ring.h has larger ones, all of
// one size.
func callOf(calls *C.ring_call, i int) (*C.ring_call, error) {
	step := calls.size
	call := (*C.ring_call)(unsafe.Add(unsafe.Pointer(calls), uintptr(i)*uintptr(step)))
	if call.size != step {
		return nil,
			invalid("call %d of the group has size %d, and the first one %d: set it to sizeof(ring_call) in all", i,
				uint64(call.size), uint64(step))
	}
	return call, nil
}

// group converts names and calls.
func (o *object) group(keys []*C.char, calls *C.ring_call) (texts []string, work []ring.Collective, err error) {
	texts = make([]string, len(keys))
	work = make([]ring.Collective, len(keys))
	for i, key := range keys {
		if texts[i], err = o.names.name(key); err != nil {
			return nil, nil, fmt.Errorf("%w (tensor %d of a group)", err, i)
		}
		call, err := callOf(calls, i)
		if err != nil {
			return nil, nil, err
		}
		if work[i], err = collective(call, o.comm.Size()); err != nil {
			return nil, nil, fmt.Errorf("%w (tensor %.80q)", err, texts[i])
		}
	}
	return texts, work, nil
}

// names caches names, so that a repeated one allocates nothing.
type names struct {
	mu    sync.Mutex
	texts map[string]string
}

// maxNames is the number of cached names, and maxKept their greatest length.
const maxNames = 8192
const maxKept = 1024

// name returns a C name as a Go string.
func (n *names) name(of *C.char) (string, error) {
	if of == nil {
		return "", invalid("the name is NULL")
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(of)), C.strlen(of))
	if len(bytes) > maxKept {
		return string(bytes), nil // Submit refuses it
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	text, known := n.texts[string(bytes)]
	if known {
		return text, nil
	}
	if n.texts == nil || len(n.texts) >= maxNames {
		n.texts = map[string]string{}
	}
	text = string(bytes)
	n.texts[text] = text
	return text, nil
}

// result is the result of a call with parts of different lengths, in C memory.
type result struct {
	data   unsafe.Pointer
	count  int
	counts unsafe.Pointer // int64_t for each rank
	size   int            // bytes of an element
}

// room allocates the memory. The queue calls it once.
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
func goRingSubmitV(queue C.ring_queue, name *C.char, call *C.ring_call, id *C.ring_request,
	failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, key, w, err := submission(queue, name, call, id)
	if err != nil {
		return tell(failure, o, err)
	}
	r := &result{size: w.Type.Size()}
	return tell(failure, o, o.requests.begin(id, false, func() (request, error) {
		t, err := o.queue.SubmitV(key, w, r.room)
		return request{ticket: t, result: r}, err
	}))
}

//export goRingResult
func goRingResult(id C.ring_request, data *unsafe.Pointer, count *C.uint64_t, counts **C.int64_t,
	failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	if data == nil || count == nil || counts == nil {
		return tell(failure, nil, nowhere("result"))
	}
	o, r, err := enterRequest(id)
	if err != nil {
		return tell(failure, nil, err)
	}
	if r.result == nil || !r.done() {
		o.requests.leave(id, outcome{})
		if r.result == nil {
			return tell(failure, nil, invalid("the request has no result: it is not one of ring_submit_v"))
		}
		return tell(failure, nil, invalid("the request is not over: wait for it"))
	}
	if err := o.requests.leave(id, r.wait(context.Background())); err != nil {
		return tell(failure, o, err)
	}
	*data = r.result.data
	*count = C.uint64_t(r.result.count)
	*counts = (*C.int64_t)(r.result.counts)
	return C.RING_OK
}

// trace is the file of a queue's running timeline.
type trace struct {
	mu   sync.Mutex
	file *os.File
}

func (t *trace) begin(q *ring.Queue, path string, options ring.TimelineOptions) error {
	if err := t.end(q); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	f, err := trust.Create(path)
	if err != nil {
		return fmt.Errorf("ring: timeline: %w", err)
	}
	if err := q.StartTimeline(f, options); err != nil {
		f.Close()
		return err
	}
	t.file = f
	return nil
}

func (t *trace) end(q *ring.Queue) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil
	}
	err := q.StopTimeline()
	if cerr := t.file.Close(); err == nil {
		err = cerr
	}
	t.file = nil
	return err
}

//export goRingTimelineStart
func goRingTimelineStart(queue C.ring_queue, path *C.char, marks C.int, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupQueue(queue)
	if err == nil && path == nil {
		err = invalid("the timeline's path is NULL")
	}
	if err != nil {
		return tell(failure, nil, err)
	}
	return tell(failure, o, o.trace.begin(o.queue, C.GoString(path), ring.TimelineOptions{MarkCycles: marks != 0}))
}

//export goRingTimelineStop
func goRingTimelineStop(queue C.ring_queue, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupQueue(queue)
	if err != nil {
		return tell(failure, nil, err)
	}
	return tell(failure, o, o.trace.end(o.queue))
}
