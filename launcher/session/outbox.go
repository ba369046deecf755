package session

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// outbox sends frames to one agent in a separate goroutine, so that a host that does not read
// blocks no other. Queued bytes are bounded: stdin by its credit, answers by their requests, pieces
// by maxPieces, and the total by maxWaits, beyond which the host counts as lost.
type outbox struct {
	w    *wire.Writer
	done chan struct{}

	full func() // called once when too much waits; may be nil

	mu     sync.Mutex
	came   sync.Cond
	sent   sync.Cond
	queue  []wire.Frame
	waits  int // bytes queued or reserved
	closed bool
	owed   map[uint32]int // credit not yet returned, by stream
	open   map[uint32]int // cost of the frames that came since credit was returned, by stream
	held   int            // cost of the frames that came and are not written yet, of all streams
	most   int            // bound of held
}

const (
	maxWaits   = 64 << 20         // queued bytes for an agent that does not read
	maxAnswers = 8 << 20          // queued bytes above which answers block
	maxPieces  = 4 * wire.MaxData // queued bytes above which pieces block
	frameCost  = 64
)

// creditStep is far enough below the window that a sender never waits for
// credit that waits here.
const creditStep = wire.Window / 4

// newOutbox returns an outbox of a host with so many bulk streams at a time.
func newOutbox(w *wire.Writer, streams int) *outbox {
	o := &outbox{
		w:    w,
		most: streams * wire.Window,
		done: make(chan struct{}),
		owed: map[uint32]int{},
		open: map[uint32]int{},
	}
	o.came.L = &o.mu
	o.sent.L = &o.mu
	go o.run()
	return o
}

func (o *outbox) run() {
	defer close(o.done)
	for {
		o.mu.Lock()
		for len(o.queue) == 0 && !o.closed {
			o.came.Wait()
		}
		batch := o.queue
		o.queue = nil
		o.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, f := range batch {
			err := o.w.Send(f.Type, f.Stream, f.Payload)
			o.paid(frameCost + len(f.Payload))
			var tooLarge *wire.FormatError
			if err != nil && !errors.As(err, &tooLarge) {
				o.close() // the session's reader sees the broken connection too
				return
			}
		}
	}
}

// send queues a frame; payload must not be changed afterwards.
func (o *outbox) send(t wire.Type, stream uint32, payload []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if o.waits += frameCost + len(payload); o.waits > maxWaits {
		o.closed = true
		o.queue = nil
		o.came.Signal()
		o.sent.Broadcast()
		if o.full != nil {
			go o.full() // returns at once
		}
		return
	}
	o.queue = append(o.queue, wire.Frame{Type: t, Stream: stream, Payload: payload})
	o.came.Signal()
}

// paid records that n bytes are no longer queued or reserved.
func (o *outbox) paid(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waits -= n
	o.sent.Broadcast()
}

// answer queues the answer to a request for a value. It blocks while much is queued, and takes the
// value from now after that: those that others replace meanwhile are not kept for it.
func (o *outbox) answer(id uint64, now func() (value []byte, found bool)) {
	o.mu.Lock()
	for o.waits > maxAnswers && !o.closed {
		o.sent.Wait()
	}
	v := wire.Value{ID: id}
	v.Value, v.Found = now()
	o.waits += len(v.Value)
	closed := o.closed
	o.mu.Unlock()
	if !closed {
		o.SendMessage(wire.TypeValue, v)
		o.paid(len(v.Value))
	}
}

// sendPiece queues a copy of a piece of bulk data without credit. It blocks while several pieces
// are queued, and returns io.ErrClosedPipe if the outbox is closed.
func (o *outbox) sendPiece(t wire.Type, piece []byte) error {
	o.mu.Lock()
	for o.waits > maxPieces && !o.closed {
		o.sent.Wait()
	}
	closed := o.closed
	o.mu.Unlock()
	if closed {
		return io.ErrClosedPipe
	}
	o.send(t, 0, slices.Clone(piece))
	return nil
}

// countReceived counts a received frame of a bulk stream with n bytes. Exceeding the credit is a
// *[wire.FormatError]. Ranks that were spawned and have ended leave theirs behind, which their host
// does not know: while all streams together have too much, it waits until some is written. It fails
// if the outbox is closed before.
func (o *outbox) countReceived(stream uint32, n int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open[stream] += wire.Cost(n); o.open[stream] > wire.Window {
		return &wire.FormatError{Reason: fmt.Sprintf("output beyond its credit, of stream %d", stream)}
	}
	for o.held > 0 && o.held+wire.Cost(n) > o.most {
		if o.closed {
			return errHostGone
		}
		o.sent.Wait()
	}
	o.held += wire.Cost(n)
	return nil
}

// beat queues a heartbeat, unless frames are still queued, which serve as well.
func (o *outbox) beat(at time.Duration) {
	o.mu.Lock()
	idle := len(o.queue) == 0
	o.mu.Unlock()
	if idle {
		o.send(wire.TypeHeartbeat, 0, binary.BigEndian.AppendUint64(nil, uint64(at)))
	}
}

// Creditor returns a function that gives back the credit of a frame of a bulk stream with n bytes,
// in steps: a credit frame per line would cost more than the line.
func (o *outbox) Creditor(stream uint32) func(n int) {
	return func(n int) {
		o.mu.Lock()
		o.held -= wire.Cost(n)
		o.owed[stream] += wire.Cost(n)
		n = o.owed[stream]
		if n >= creditStep {
			delete(o.owed, stream)
			o.open[stream] -= n
		}
		o.sent.Broadcast()
		o.mu.Unlock()
		if n >= creditStep {
			o.send(wire.TypeCredit, stream, binary.BigEndian.AppendUint32(nil, uint32(n)))
		}
	}
}

// SendMessage queues a control message.
func (o *outbox) SendMessage(t wire.Type, message any) { o.Send(t, Encode(message)) }

// Send queues a control message that is encoded. payload must not be changed afterwards.
func (o *outbox) Send(t wire.Type, payload []byte) { o.send(t, 0, payload) }

// Encode encodes a control message for [outbox.Send]. Our own messages always encode.
func Encode(message any) []byte {
	payload, err := json.Marshal(message)
	if err != nil {
		panic("launcher: " + err.Error())
	}
	return payload
}

// close accepts no more frames. Queued ones are still sent if the agent reads them.
// It does not wait: closing the session's stdin ends a blocked send.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.came.Signal()
	o.sent.Broadcast()
}
