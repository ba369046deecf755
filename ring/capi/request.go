package main

// #include "told.h"
import "C"

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/gorun/gorun/ring"
)

// A request's handle is the handle of its communicator or queue in the upper 32 bits, then how often its place was used
// before, then the number of that place, from 1.
const (
	ownerBits, turnBits, placeBits = 32, 12, 20

	placeMask = 1<<placeBits - 1
	turnMask  = 1<<turnBits - 1
)

// request is a call that was started or submitted, until it was waited for or released.
type request struct {
	handle ring.Handle // one of them is zero, and over
	ticket ring.Ticket
	result *result // of a call with a result of a length of its own, else nil

	turn   uint64
	used   bool
	failed string // the text of its error, when it was waited for
}

func (r *request) done() bool { return r.handle.Done() && r.ticket.Done() }

func (r *request) wait(ctx context.Context) error {
	if err := r.handle.Wait(ctx); err != nil {
		return err
	}
	return r.ticket.Wait(ctx)
}

// requests are those of one communicator or queue.
type requests struct {
	owner uint64

	mu     sync.Mutex
	places []request
	free   []uint32
}

func (t *requests) add(r request) C.ring_request {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.free) == 0 {
		t.places = append(t.places, request{})
		t.free = append(t.free, uint32(len(t.places)-1))
	}
	at := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	r.turn, r.used = t.places[at].turn, true
	t.places[at] = r
	return C.ring_request(t.owner<<ownerBits | r.turn<<placeBits | uint64(at+1))
}

// room says why so many requests more cannot be kept.
func (t *requests) room(n int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.owner > math.MaxUint32:
		return invalid("this process has made too many communicators and queues")
	case len(t.places)-len(t.free)+n > placeMask:
		return invalid("there are %d requests already: wait for them", len(t.places)-len(t.free))
	}
	return nil
}

func (t *requests) get(id C.ring_request) (request, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, err := t.at(id)
	if err != nil {
		return request{}, err
	}
	return *r, nil
}

// at is the place of a request. The lock is held.
func (t *requests) at(id C.ring_request) (*request, error) {
	place, turn := uint64(id)&placeMask, uint64(id)>>placeBits&turnMask
	if place == 0 || place > uint64(len(t.places)) || !t.places[place-1].used || t.places[place-1].turn != turn {
		return nil, invalid("there is no request %#x: it was waited for or released", uint64(id))
	}
	return &t.places[place-1], nil
}

// fail keeps the text of a request's error.
func (t *requests) fail(id C.ring_request, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r, err := t.at(id); err == nil {
		r.failed = text
	}
}

// remove takes a request out.
func (t *requests) remove(id C.ring_request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, err := t.at(id)
	if err != nil {
		return
	}
	*r = request{turn: (r.turn + 1) & turnMask}
	t.free = append(t.free, uint32(uint64(id)&placeMask-1))
}

// lookupRequest finds a request and what it belongs to.
func lookupRequest(id C.ring_request) (*object, request, error) {
	o, err := lookup(C.uint64_t(id >> ownerBits))
	if err != nil {
		return nil, request{}, invalid("there is no request %#x", uint64(id))
	}
	r, err := o.requests.get(id)
	return o, r, err
}

//export goRingPoll
func goRingPoll(id C.ring_request, done *C.int, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	_, r, err := lookupRequest(id)
	if err != nil {
		return tell(told, nil, err)
	}
	*done = 0
	if r.done() {
		*done = 1
	}
	return C.RING_OK
}

//export goRingWait
func goRingWait(id C.ring_request, timeout C.int64_t, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, r, err := lookupRequest(id)
	if err != nil {
		return tell(told, nil, err)
	}
	ctx, cancel := context.Background(), func() {}
	if timeout >= 0 && !r.done() {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(timeout)*time.Millisecond)
	}
	defer cancel()
	err = r.wait(ctx)
	switch code = tell(told, o, err); {
	case code == C.RING_OK && r.result == nil:
		o.requests.remove(id)
	case code != C.RING_OK && code != C.RING_TIMEOUT:
		o.requests.fail(id, err.Error())
	}
	return code
}

//export goRingRelease
func goRingRelease(id C.ring_request, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	o, r, err := lookupRequest(id)
	if err == nil && !r.done() {
		err = invalid("the request is not over: wait for it")
	}
	if err != nil {
		return tell(told, nil, err)
	}
	_ = r.wait(context.Background()) // it is over, and what it holds is free after that
	o.requests.remove(id)
	r.result.free()
	return C.RING_OK
}

//export goRingErrorText
func goRingErrorText(handle C.uint64_t, text *C.char, size C.size_t, told *C.ring_told) (code C.int) {
	defer guard(&code, told)
	var failed string
	if handle>>ownerBits != 0 {
		_, r, err := lookupRequest(C.ring_request(handle))
		if err != nil {
			return tell(told, nil, err)
		}
		failed = r.failed
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
