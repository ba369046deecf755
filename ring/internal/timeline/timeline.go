package timeline

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Names of phases inside an operation. The phase that moves the data is RING_ and the
// operation's name, such as RING_ALLREDUCE.
const (
	Queue     = "QUEUE"
	MemcpyIn  = "MEMCPY_IN_FUSION_BUFFER"
	MemcpyOut = "MEMCPY_OUT_FUSION_BUFFER"
)

const negotiate = "NEGOTIATE_"

const defaultBuffer = 1 << 14

// ErrRunning reports a Start of a running timeline.
var ErrRunning = errors.New("timeline: it runs already; stop it first")

// Options configure a timeline.
type Options struct {
	Buffer     int  // events that may wait for the writer; 0: 16384, of about 130 bytes each
	MarkCycles bool // write a mark for each Cycle
	// Append continues the trace that this Timeline wrote to the same writer before it was
	// stopped, with the same rows and clock. The writer must be an io.Seeker, such as a
	// file that was not opened to append.
	Append bool
}

// Timeline records events while it runs, and costs almost nothing while it does not. Its
// methods are safe for concurrent use. Those that record an event never wait: if the
// writer falls behind, events are dropped and counted. The calls for one tensor should be
// sequential.
//
// Written begins and ends match even if events are dropped: an end without its begin is
// omitted, and a phase that lost its end ends with the enclosing one.
type Timeline struct {
	clock func() time.Time
	run   atomic.Pointer[session] // nil: off

	control sync.Mutex // held by Start and Stop; guards the fields below
	began   time.Time
	rows    *rows // rows of the last session; nil if its end was not written
}

// New returns a timeline that is off.
func New() *Timeline { return &Timeline{clock: time.Now} }

// Start begins to write events to w as a new trace, on a goroutine of its own. w is not
// closed. A failed write ends the trace, and [Timeline.Stop] returns its error.
func (t *Timeline) Start(w io.Writer, o Options) error {
	t.control.Lock()
	defer t.control.Unlock()
	if t.run.Load() != nil {
		return ErrRunning
	}
	if o.Buffer <= 0 {
		o.Buffer = defaultBuffer
	}
	s := &session{
		w:      w,
		clock:  t.clock,
		marks:  o.MarkCycles,
		events: make(chan event, o.Buffer),
		quit:   make(chan struct{}),
		done:   make(chan struct{}),
	}
	if o.Append {
		if err := t.reopen(w); err != nil {
			return err
		}
	} else {
		t.began = t.clock()
		t.rows = newRows(maxRows)
		s.buf = appendHead(nil, t.began)
	}
	s.began = t.began
	s.rows = t.rows
	t.run.Store(s)
	go s.loop()
	return nil
}

// reopen seeks w to before the end of the trace that t has written to it.
func (t *Timeline) reopen(w io.Writer) error {
	seeker, ok := w.(io.Seeker)
	switch {
	case t.rows == nil:
		return errors.New("timeline: append: this timeline has finished no trace before; start a new one")
	case !ok:
		return fmt.Errorf("timeline: append: a %T cannot seek; give a file, or start a new trace", w)
	}
	if _, err := seeker.Seek(-int64(len(tail)), io.SeekEnd); err != nil {
		return fmt.Errorf("timeline: append: %w", err)
	}
	return nil
}

// Stop writes the recorded events, ends open phases, closes the trace, and waits for the
// writer, whose error it returns. Events recorded while Stop runs may be lost. Without a
// Start before, it does nothing.
func (t *Timeline) Stop() error {
	t.control.Lock()
	defer t.control.Unlock()
	s := t.run.Swap(nil)
	if s == nil {
		return nil
	}
	close(s.quit)
	<-s.done
	if s.err != nil {
		t.rows = nil
		return fmt.Errorf("timeline: %d events are lost: %w", s.dropped.Load(), s.err)
	}
	return nil
}

// On reports whether the timeline runs, so that callers can skip preparing events.
func (t *Timeline) On() bool { return t.run.Load() != nil }

// Negotiate begins the negotiation of a tensor: a rank has submitted op on it, such
// as "ALLREDUCE".
func (t *Timeline) Negotiate(tensor, op string) {
	if s := t.run.Load(); s != nil {
		s.put(event{
			kind:   beginTop,
			tensor: tensor,
			prefix: negotiate,
			name:   op,
		})
	}
}

// Ready marks that a rank has submitted the tensor.
func (t *Timeline) Ready(tensor string, rank int) {
	if s := t.run.Load(); s != nil {
		s.put(event{kind: ready, tensor: tensor, rank: int32(rank)})
	}
}

// Negotiated ends the negotiation: all ranks have submitted the tensor.
func (t *Timeline) Negotiated(tensor, op string) {
	if s := t.run.Load(); s != nil {
		s.put(event{
			kind:   end,
			tensor: tensor,
			prefix: negotiate,
			name:   op,
		})
	}
}

// Begin begins the operation op on a tensor. Open phases of its row end.
func (t *Timeline) Begin(tensor, op string) {
	if s := t.run.Load(); s != nil {
		s.put(event{kind: beginTop, tensor: tensor, name: op})
	}
}

// Enter begins a phase of the operation, or of the open phase.
func (t *Timeline) Enter(tensor, phase string) {
	if s := t.run.Load(); s != nil {
		s.put(event{kind: beginNest, tensor: tensor, name: phase})
	}
}

// Leave ends a phase.
func (t *Timeline) Leave(tensor, phase string) {
	if s := t.run.Load(); s != nil {
		s.put(event{kind: end, tensor: tensor, name: phase})
	}
}

// End ends the operation op on a tensor.
func (t *Timeline) End(tensor, op string, args Args) {
	if s := t.run.Load(); s != nil {
		s.put(event{
			kind:   end,
			tensor: tensor,
			name:   op,
			args:   args,
		})
	}
}

// Cycle marks the start of a cycle of the negotiation, if the options ask for marks.
func (t *Timeline) Cycle() {
	if s := t.run.Load(); s != nil && s.marks {
		s.put(event{kind: cycle})
	}
}
