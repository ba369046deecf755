package timeline

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// Names of phases inside an operation. The one that moves the data is RING_ and the
// operation's name, such as RING_ALLREDUCE.
const (
	Queue     = "QUEUE"
	MemcpyIn  = "MEMCPY_IN_FUSION_BUFFER"
	MemcpyOut = "MEMCPY_OUT_FUSION_BUFFER"
)

const negotiate = "NEGOTIATE_"

const defaultBuffer = 1 << 14

// ErrRunning means that a timeline was started that runs already.
var ErrRunning = errors.New("timeline: it runs already; stop it first")

// Options say how a timeline is written.
type Options struct {
	Buffer     int  // events that may wait for the writer; 0: 16384, of about 130 bytes each
	MarkCycles bool // write a mark for each Cycle
	// Append goes on with what this Timeline wrote to the same writer before it was
	// stopped: same rows, same clock. The writer must be an io.Seeker, such as a file
	// that was not opened to append.
	Append bool
}

// Timeline takes notes of events while it runs, and does next to nothing while it
// does not. Its methods may be called from any goroutine. Those that note an event
// never wait: when the writer falls behind, events are dropped and counted. The calls
// for one tensor should come one after the other.
//
// Begins and ends match in what is written, whatever is dropped: an end without its
// begin is left out, and what has lost its end is ended with what is around it.
type Timeline struct {
	clock func() time.Time
	run   atomic.Pointer[session] // nil: off

	control sync.Mutex // held by Start and Stop; guards what follows
	began   time.Time
	rows    *rows // of the last session, nil if it could not be finished
}

// New returns a timeline that is off.
func New() *Timeline { return &Timeline{clock: time.Now} }

// Start begins to write events to w, from a goroutine of its own, as a new trace. w
// is not closed. A w that fails ends the writing, and [Timeline.Stop] says so.
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
		w: w, clock: t.clock, marks: o.MarkCycles, events: make(chan event, o.Buffer),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	if o.Append {
		if err := t.reopen(w); err != nil {
			return err
		}
	} else {
		t.began, t.rows = t.clock(), newRows(maxRows)
		s.buf = appendHead(nil, t.began)
	}
	s.began, s.rows = t.began, t.rows
	t.run.Store(s)
	go s.loop()
	return nil
}

// reopen puts w before the end of the trace that t has written to it.
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

// Stop writes what was noted before, ends what is open, closes the trace, and returns
// when that is done: it waits for the writer. The error is of the writer. Events that
// are noted while Stop runs may be lost. Without a Start before, it does nothing.
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

// On reports whether the timeline runs: whether it is worth to collect what an event
// needs.
func (t *Timeline) On() bool { return t.run.Load() != nil }

// Negotiate begins the negotiation of a tensor: a rank has submitted op on it, such
// as "ALLREDUCE".
func (t *Timeline) Negotiate(tensor, op string) {
	if s := t.run.Load(); s != nil {
		s.put(event{what: beginTop, tensor: tensor, prefix: negotiate, name: op})
	}
}

// Ready marks that a rank has submitted the tensor.
func (t *Timeline) Ready(tensor string, rank int) {
	if s := t.run.Load(); s != nil {
		s.put(event{what: ready, tensor: tensor, rank: int32(rank)})
	}
}

// Negotiated ends the negotiation: all ranks have submitted the tensor.
func (t *Timeline) Negotiated(tensor, op string) {
	if s := t.run.Load(); s != nil {
		s.put(event{what: end, tensor: tensor, prefix: negotiate, name: op})
	}
}

// Begin begins the operation op on a tensor. What is open in its row ends.
func (t *Timeline) Begin(tensor, op string) {
	if s := t.run.Load(); s != nil {
		s.put(event{what: beginTop, tensor: tensor, name: op})
	}
}

// Enter begins a phase of the operation, or of the phase that is open.
func (t *Timeline) Enter(tensor, phase string) {
	if s := t.run.Load(); s != nil {
		s.put(event{what: beginNest, tensor: tensor, name: phase})
	}
}

// Leave ends a phase.
func (t *Timeline) Leave(tensor, phase string) {
	if s := t.run.Load(); s != nil {
		s.put(event{what: end, tensor: tensor, name: phase})
	}
}

// End ends the operation op on a tensor.
func (t *Timeline) End(tensor, op string, args Args) {
	if s := t.run.Load(); s != nil {
		s.put(event{what: end, tensor: tensor, name: op, args: args})
	}
}

// Cycle marks the start of a cycle of the negotiation, if the options ask for marks.
func (t *Timeline) Cycle() {
	if s := t.run.Load(); s != nil && s.marks {
		s.put(event{what: cycle})
	}
}
