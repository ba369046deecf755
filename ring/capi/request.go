package main

// #include "failure.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime/cgo"
	"sync"
	"sync/atomic"

	"github.com/gorun/gorun/ring"
)

// A request's handle consists of the handle of its communicator or queue in the upper bits, the
// number of earlier uses of its slot, and the slot's number from 1.
const (
	ownerBits = 40
	turnBits  = 20
	slotBits  = 20 // bits of turn and slot together; the owner has the rest

	slotMask = 1<<slotBits - 1
	turnMask = 1<<turnBits - 1
	ownerMax = 1<<(64-ownerBits) - 1
)

// request is a started or submitted call until it is freed.
type request struct {
	handle ring.Handle // one of them is zero, and done
	ticket ring.Ticket
	result *result // nil unless it is of ring_submit_v

	joining *ring.Joining // nil unless it is of ring_join
	last    *C.int32_t    // destination of the rank that joined last

	turn     uint64
	used     bool
	waits    int // threads that use it now; the last one frees it
	outcome  outcome
	released bool
}

// outcome is the known state of a request.
type outcome struct {
	over bool
	err  error // error of the request if it is done, else of the wait
}

func (r *request) done() bool {
	return r.handle.Done() && r.ticket.Done() && (r.joining == nil || r.joining.Done())
}

// wait waits until the request is done or ctx ends. It changes nothing: leave keeps the outcome.
func (r *request) wait(ctx context.Context) outcome {
	err := r.waitOnce(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		return outcome{true, err}
	}
	if !r.done() {
		if err == context.DeadlineExceeded { // the request is a started call
			err = fmt.Errorf("ring: the wait timed out, and the request goes on: %w", err)
		}
		return outcome{err: err}
	}
	// It ended together with the wait, or a timeout ended it.
	if err = r.waitOnce(context.Background()); errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %w", err, errBroken)
	}
	return outcome{true, err}
}

func (r *request) waitOnce(ctx context.Context) error {
	if r.joining != nil {
		last, err := r.joining.Wait(ctx)
		if err == nil && r.last != nil {
			*r.last = C.int32_t(last)
		}
		return err
	}
	if err := r.handle.Wait(ctx); err != nil {
		return err
	}
	return r.ticket.Wait(ctx)
}

// finished reports whether the request can be freed.
func (r *request) finished() bool {
	return r.released || r.outcome.over && r.outcome.err == nil && r.result == nil
}

// requests holds the requests of one communicator or queue.
type requests struct {
	owner  uint64
	closed atomic.Bool // state of the communicator or queue; written under the lock

	mu    sync.Mutex
	slots []request
	free  []uint32
	live  int
}

func (t *requests) take() (C.ring_request, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed.Load():
		return 0, ring.ErrClosed
	case t.owner > ownerMax:
		return 0, invalid("this process has made too many communicators and queues")
	case len(t.free) == 0 && len(t.slots) == slotMask:
		return 0, invalid("there are %d requests already: wait for them", t.live)
	}
	if len(t.free) == 0 {
		t.slots = append(t.slots, request{})
		t.free = append(t.free, uint32(len(t.slots)-1))
	}
	at := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.slots[at].used = true
	t.live++
	return C.ring_request(t.owner<<ownerBits | t.slots[at].turn<<slotBits | uint64(at+1)), nil
}

func (t *requests) fill(id C.ring_request, r request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &t.slots[uint64(id)&slotMask-1]
	p.handle = r.handle
	p.ticket = r.ticket
	p.result = r.result
	p.joining = r.joining
	p.last = r.last
}

// begin starts a call and puts its handle into id. It reserves the slot first, because a started
// call cannot be undone. With here, the call may be over when start returns: then begin leaves 0 in
// id, and returns how the call ended.
func (t *requests) begin(id *C.ring_request, here bool, start func() (request, error)) error {
	slot, err := t.take()
	if err != nil {
		return err
	}
	r, err := start()
	if err == nil && (!here || !r.done()) {
		t.fill(slot, r)
		*id = slot
		return nil
	}
	t.giveBack(slot)
	if here {
		*id = 0
	}
	if err == nil {
		err = r.waitOnce(context.Background()) // returns at once
	}
	return err
}

// giveBack frees slots that were not filled.
func (t *requests) giveBack(ids ...C.ring_request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		t.remove(id)
	}
}

// at returns the slot of a request. The lock is held.
func (t *requests) at(id C.ring_request) (*request, error) {
	slot := uint64(id) & slotMask
	turn := uint64(id) >> slotBits & turnMask
	if slot == 0 || slot > uint64(len(t.slots)) || !t.slots[slot-1].used || t.slots[slot-1].turn != turn ||
		t.slots[slot-1].finished() {
		return nil, invalid("there is no request %#x: it was waited for or released", uint64(id))
	}
	return &t.slots[slot-1], nil
}

// enter returns a request, which keeps its slot until leave.
func (t *requests) enter(id C.ring_request) (request, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, err := t.at(id)
	if err != nil {
		return request{}, err
	}
	r.waits++
	return *r, nil
}

// leave records the outcome of a request and ends its use; a finished request is freed. The first
// outcome counts, because later the name may be in use again. It returns that outcome's error.
func (t *requests) leave(id C.ring_request, found outcome) error {
	return t.let(id, found, false)
}

// release is leave that frees the request.
func (t *requests) release(id C.ring_request, found outcome) { _ = t.let(id, found, true) }

func (t *requests) let(id C.ring_request, found outcome, release bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.slots[uint64(id)&slotMask-1]
	if !r.outcome.over {
		r.outcome = found
	}
	err := r.outcome.err
	if r.released = r.released || release; r.finished() && r.waits == 1 {
		r.result.free()
		t.remove(id)
		return err
	}
	r.waits--
	return err
}

// remove frees a slot. The lock is held. A slot that has used up its turns is not used again, so
// that no handle repeats.
func (t *requests) remove(id C.ring_request) {
	at := uint32(uint64(id)&slotMask - 1)
	turn := t.slots[at].turn + 1
	t.slots[at] = request{turn: turn}
	if turn <= turnMask {
		t.free = append(t.free, at)
	}
	t.live--
	t.forget()
}

// close makes later requests fail. It reports whether it was the first call.
func (t *requests) close() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed.Swap(true) {
		return false
	}
	t.forget()
	return true
}

// forget deletes the handle of the communicator or queue when it is closed and has no requests. The
// lock is held.
func (t *requests) forget() {
	if t.closed.Load() && t.live == 0 {
		cgo.Handle(t.owner).Delete()
	}
}

// enterRequest returns a request and its object; the caller calls leave.
func enterRequest(id C.ring_request) (*object, request, error) {
	o, err := lookup(C.uint64_t(id >> ownerBits))
	if err != nil {
		return nil, request{}, invalid("there is no request %#x: it was waited for or released, or never was",
			uint64(id))
	}
	r, err := o.requests.enter(id)
	return o, r, err
}

//export goRingPoll
func goRingPoll(id C.ring_request, done *C.int, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	if done == nil {
		return tell(failure, nil, nowhere("answer"))
	}
	o, r, err := enterRequest(id)
	if err != nil {
		return tell(failure, nil, err)
	}
	*done = 0
	if r.done() {
		*done = 1
	}
	_ = o.requests.leave(id, outcome{})
	return C.RING_OK
}

//export goRingWait
func goRingWait(id C.ring_request, timeout C.int64_t, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, r, err := enterRequest(id)
	if err != nil {
		return tell(failure, nil, err)
	}
	ctx := context.Background()
	cancel := func() {}
	if timeout >= 0 && !r.done() {
		ctx, cancel = context.WithTimeout(ctx, span(timeout))
	}
	defer cancel()
	return tell(failure, o, o.requests.leave(id, r.wait(ctx)))
}

//export goRingRelease
func goRingRelease(id C.ring_request, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, r, err := enterRequest(id)
	if err != nil {
		return tell(failure, nil, err)
	}
	if !r.done() {
		_ = o.requests.leave(id, outcome{})
		return tell(failure, nil, invalid("the request is not over: wait for it"))
	}
	o.requests.release(id, r.wait(context.Background())) // it is done, and its memory is freed then
	return C.RING_OK
}

//export goRingErrorText
func goRingErrorText(handle C.uint64_t, text *C.char, size C.size_t, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	var failed string
	if handle>>ownerBits != 0 {
		o, r, err := enterRequest(C.ring_request(handle))
		if err != nil {
			return tell(failure, nil, err)
		}
		if r.outcome.over && r.outcome.err != nil {
			failed = r.outcome.err.Error()
		}
		_ = o.requests.leave(C.ring_request(handle), outcome{})
	} else {
		o, err := lookup(handle)
		if err != nil {
			return tell(failure, nil, err)
		}
		failed = o.last()
	}
	putText(text, size, failed)
	return C.RING_OK
}
