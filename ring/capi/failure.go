package main

// #include "failure.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/gorun/gorun/ring"
)

// errInternal marks bugs.
var errInternal = errors.New("ring: internal error")

// errBroken marks a request that failed because a timeout broke its communicator: for its waiter
// that is no timeout.
var errBroken = errors.New("a call ran out of time, and nothing works any more")

// failures keeps the text of an object's last error.
type failures struct {
	mu   sync.Mutex
	text string
}

func (f *failures) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text = text
}

func (f *failures) last() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text
}

func codeOf(err error) C.int {
	var peer *ring.PeerError
	switch {
	case err == nil:
		return C.RING_OK
	case errors.As(err, &peer), errors.Is(err, errBroken):
		return C.RING_PEER
	case errors.As(err, new(*ring.MismatchError)), errors.As(err, new(*ring.TensorMismatchError)),
		errors.As(err, new(*ring.JoinedError)):
		return C.RING_MISMATCH
	case errors.As(err, new(*ring.DuplicateError)):
		return C.RING_DUPLICATE
	case errors.Is(err, ring.ErrClosed):
		return C.RING_CLOSED
	case errors.Is(err, context.DeadlineExceeded):
		return C.RING_TIMEOUT
	case errors.Is(err, ring.ErrNoGPU):
		return C.RING_NO_GPU
	case errors.Is(err, errInternal):
		return C.RING_INTERNAL
	}
	return C.RING_INVALID
}

// tell stores the text of err, if not nil, for the calling thread and with its object, if any.
func tell(failure *C.ring_failure, o *object, err error) C.int {
	if err == nil {
		return C.RING_OK
	}
	failure.rank = -1
	if peer := new(ring.PeerError); errors.As(err, &peer) {
		failure.rank = C.int32_t(peer.Rank)
	}
	putText(&failure.text[0], C.size_t(len(failure.text)), err.Error())
	if o != nil {
		o.note(err.Error())
	}
	return codeOf(err)
}

// guard converts a panic to an error.
func guard(code *C.int, failure *C.ring_failure) {
	if p := recover(); p != nil {
		*code = tell(failure, nil, fmt.Errorf("%w: %v\n%s", errInternal, p, debug.Stack()))
	}
}

// putText copies text, truncated to fit, with a final 0.
func putText(to *C.char, size C.size_t, text string) {
	if to == nil || size == 0 {
		return
	}
	room := unsafe.Slice((*byte)(unsafe.Pointer(to)), int(size))
	room[copy(room[:len(room)-1], text)] = 0
}
