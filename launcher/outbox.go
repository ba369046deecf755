package launcher

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/wire"
)

// outbox sends frames to one agent from a goroutine of its own: a host that
// does not read holds up nobody but itself. What waits is bounded by what causes
// it: stdin by its credit, answers by the host's own requests.
type outbox struct {
	w    *wire.Writer
	done chan struct{}

	mu     sync.Mutex
	came   sync.Cond
	queue  []wire.Frame
	closed bool
	owed   map[uint32]int // credit not yet returned, by stream
}

// creditStep is far enough below the window that a sender never waits for
// credit that waits here.
const creditStep = wire.Window / 4

func newOutbox(w *wire.Writer) *outbox {
	o := &outbox{w: w, done: make(chan struct{}), owed: map[uint32]int{}}
	o.came.L = &o.mu
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
			var tooLarge *wire.FormatError
			if err != nil && !errors.As(err, &tooLarge) {
				o.shut() // the session's reader sees the broken connection too
				return
			}
		}
	}
}

// send queues a frame; payload must not be changed afterwards.
func (o *outbox) send(t wire.Type, stream uint32, payload []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.queue = append(o.queue, wire.Frame{Type: t, Stream: stream, Payload: payload})
		o.came.Signal()
	}
}

// beat queues a heartbeat, unless what was sent before still waits: then the
// agent has more to read than signs of life.
func (o *outbox) beat(at time.Duration) {
	o.mu.Lock()
	idle := len(o.queue) == 0
	o.mu.Unlock()
	if idle {
		o.send(wire.TypeHeartbeat, 0, binary.BigEndian.AppendUint64(nil, uint64(at)))
	}
}

// creditor returns a function that gives credit back for a bulk stream, in
// steps: a credit frame per line would cost more than the line.
func (o *outbox) creditor(stream uint32) func(n int) {
	return func(n int) {
		o.mu.Lock()
		o.owed[stream] += n
		n = o.owed[stream]
		if n >= creditStep {
			delete(o.owed, stream)
		}
		o.mu.Unlock()
		if n >= creditStep {
			o.send(wire.TypeCredit, stream, binary.BigEndian.AppendUint32(nil, uint32(n)))
		}
	}
}

// tell queues a control message. Our own messages always encode.
func (o *outbox) tell(t wire.Type, message any) {
	payload, err := json.Marshal(message)
	if err != nil {
		panic("launcher: " + err.Error())
	}
	o.send(t, 0, payload)
}

func (o *outbox) shut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.came.Signal()
}

// close lets what is queued go out, if the agent reads it, and takes no more.
// It does not wait: closing the session's stdin ends a stuck send.
func (o *outbox) close() { o.shut() }
