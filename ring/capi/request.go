package main

// #include "told.h"
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

// A request's handle is the handle of its communicator or queue in the upper bits, then how often its place was used
// before, then the number of that place, from 1.
const (
	ownerBits, turnBits, placeBits = 40, 20, 20 // of the turn and place together; the owner has the rest

	placeMask = 1<<placeBits - 1
	turnMask  = 1<<turnBits - 1
	ownerMax  = 1<<(64-ownerBits) - 1
)

// request is a call that was started or submitted, until it was waited for or released.
type request struct {
	handle ring.Handle // one of them is zero, and over
	ticket ring.Ticket
	result *result // of a call with a result of a length of its own, else nil

	joining *ring.Joining // of ring_join, else nil
	last    *C.int32_t    // where it tells who was the last to join

	turn     uint64
	used     bool
	waits    int // threads that look at it now: none takes it from the other
	outcome  outcome
	released bool
}

// outcome is what is known of a request.
type outcome struct {
	over bool
	err  error // of the request when it is over, else of the wait
}

func (r *request) done() bool {
	return r.handle.Done() && r.ticket.Done() && (r.joining == nil || r.joining.Done())
}

// wait waits until the request is over or ctx ends. It is pure but for that: leave keeps what it returns.
func (r *request) wait(ctx context.Context) outcome {
	err := r.waitOnce(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		return outcome{true, err}
	}
	if !r.done() {
		if err == context.DeadlineExceeded { // of a call without a name
			err = fmt.Errorf("ring: the request is not over: %w", err)
		}
		return outcome{err: err}
	}
	// It came to its end as the wait did, or it is a timeout that is its end.
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

// finished reports whether there is nothing more to say about the request.
func (r *request) finished() bool {
	return r.released || r.outcome.over && r.outcome.err == nil && r.result == nil
}

// requests are those of one communicator or queue.
type requests struct {
	owner  uint64
	closed atomic.Bool // of the communicator or queue; changed with the lock held

	mu     sync.Mutex
	places []request
	free   []uint32
	live   int
}

// take reserves a place.
func (t *requests) take() (C.ring_request, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed.Load():
		return 0, ring.ErrClosed
	case t.owner > ownerMax:
		return 0, invalid("this process has made too many communicators and queues")
	case len(t.free) == 0 && len(t.places) == placeMask:
		return 0, invalid("there are %d requests already: wait for them", t.live)
	}
	if len(t.free) == 0 {
		t.places = append(t.places, request{})
		t.free = append(t.free, uint32(len(t.places)-1))
	}
	at := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	t.places[at].used = true
	t.live++
	return C.ring_request(t.owner<<ownerBits | t.places[at].turn<<placeBits | uint64(at+1)), nil
}

// fill puts a request in its place.
func (t *requests) fill(id C.ring_request, r request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &t.places[uint64(id)&placeMask-1]
	p.handle, p.ticket, p.result, p.joining, p.last = r.handle, r.ticket, r.result, r.joining, r.last
}

// begin starts a call that has a place, and puts its handle into id: the place first, because a call that has
// begun cannot be taken back.
func (t *requests) begin(id *C.ring_request, start func() (request, error)) error {
	place, err := t.take()
	if err != nil {
		return err
	}
	r, err := start()
	if err != nil {
		t.giveBack(place)
		return err
	}
	t.fill(place, r)
	*id = place
	return nil
}

// giveBack frees places that were not filled.
func (t *requests) giveBack(ids ...C.ring_request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		t.remove(id)
	}
}

// at is the place of a request. The lock is held.
func (t *requests) at(id C.ring_request) (*request, error) {
	place, turn := uint64(id)&placeMask, uint64(id)>>placeBits&turnMask
	if place == 0 || place > uint64(len(t.places)) || !t.places[place-1].used || t.places[place-1].turn != turn || t.places[place-1].finished() {
		return nil, invalid("there is no request %#x: it was waited for or released", uint64(id))
	}
	return &t.places[place-1], nil
}

// enter returns a request, which stays in its place until leave.
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

// leave keeps what was found out about a request, and lets go of it; if nothing more is to be said, so is its place. What
// was found out first stays true: later the name may be in use again. It returns the error of that.
func (t *requests) leave(id C.ring_request, found outcome) error {
	return t.let(id, found, false)
}

// release is leave for the last time.
func (t *requests) release(id C.ring_request, found outcome) { _ = t.let(id, found, true) }

func (t *requests) let(id C.ring_request, found outcome, release bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.places[uint64(id)&placeMask-1]
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

// remove frees a place. The lock is held. A place that has had all of its turns is not used again, so that no
// request ever has the handle of an old one.
func (t *requests) remove(id C.ring_request) {
	at := uint32(uint64(id)&placeMask - 1)
	turn := t.places[at].turn + 1
	t.places[at] = request{turn: turn}
	if turn <= turnMask {
		t.free = append(t.free, at)
	}
	t.live--
	t.forget()
}

// close refuses requests from now on. It reports whether it was first to do so.
func (t *requests) close() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed.Swap(true) {
		return false
	}
	t.forget()
	return true
}

// forget gives up the handle of the communicator or queue when it is closed and no request is left. The lock is held.
func (t *requests) forget() {
	if t.closed.Load() && t.live == 0 {
		cgo.Handle(t.owner).Delete()
	}
}

// enterRequest finds a request and what it belongs to, for leave.
func enterRequest(id C.ring_request) (*object, request, error) {
	o, err := lookup(C.uint64_t(id >> ownerBits))
	if err != nil {
		return nil, request{}, invalid("there is no request %#x: it was waited for or released, or never was", uint64(id))
	}
	r, err := o.requests.enter(id)
	return o, r, err
}

//export goRingPoll
func goRingPoll(id C.ring_request, done *C.int, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	if done == nil {
		return tell(told, nil, nowhere("answer"))
	}
	o, r, err := enterRequest(id)
	if err != nil {
		return tell(told, nil, err)
	}
	*done = 0
	if r.done() {
		*done = 1
	}
	_ = o.requests.leave(id, outcome{})
	return C.RING_OK
}

//export goRingWait
func goRingWait(id C.ring_request, timeout C.int64_t, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, r, err := enterRequest(id)
	if err != nil {
		return tell(told, nil, err)
	}
	ctx, cancel := context.Background(), func() {}
	if timeout >= 0 && !r.done() {
		ctx, cancel = context.WithTimeout(ctx, span(timeout))
	}
	defer cancel()
	return tell(told, o, o.requests.leave(id, r.wait(ctx)))
}

//export goRingRelease
func goRingRelease(id C.ring_request, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, r, err := enterRequest(id)
	if err != nil {
		return tell(told, nil, err)
	}
	if !r.done() {
		_ = o.requests.leave(id, outcome{})
		return tell(told, nil, invalid("the request is not over: wait for it"))
	}
	o.requests.release(id, r.wait(context.Background())) // it is over, and what it holds is free after that
	return C.RING_OK
}

//export goRingErrorText
func goRingErrorText(handle C.uint64_t, text *C.char, size C.size_t, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	var failed string
	if handle>>ownerBits != 0 {
		o, r, err := enterRequest(C.ring_request(handle))
		if err != nil {
			return tell(told, nil, err)
		}
		if r.outcome.over && r.outcome.err != nil {
			failed = r.outcome.err.Error()
		}
		_ = o.requests.leave(C.ring_request(handle), outcome{})
	} else {
		o, err := lookup(handle)
		if err != nil {
			return tell(told, nil, err)
		}
		failed = o.last()
	}
	putText(text, size, failed)
	return C.RING_OK
}
