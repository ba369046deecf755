package ring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorun/gorun/ring/internal/negotiate"
	"github.com/gorun/gorun/ring/internal/timeline"
)

// idleTime bounds the time between two cycles of an idle rank.
const idleTime = time.Second

// leaveTime bounds how long Close waits for the other ranks. Ranks that run join a cycle within
// idleTime, and closing may take two cycles.
const leaveTime = 15 * idleTime

// Tensors of at least so many bytes run alone and in place, because copying them costs more than a
// call: where all ranks share memory, and elsewhere.
const (
	largeNear = 128 << 10
	largeFar  = 1 << 20
)

// Queue runs collectives on named tensors. Ranks may submit them in different orders: a tensor runs
// when all ranks have submitted it, and the ranks agree on the order without a coordinator.
// Allreduces that are ready together, with one type and operation, are fused into one.
//
// The methods are safe for concurrent use. A tensor that ranks submit differently fails on all of
// them with a [*TensorMismatchError], and the Queue stays usable. A rank that runs out of data
// before the others calls [Queue.Join]. Any other failure is permanent: pending and later
// submissions fail, with a [*PeerError] if a rank died.
//
// Fusion depends on timing. It may change the last bit of floating point sums from run to run, but
// all ranks get the same bits. Results are reproducible without fusion, or if tensors are submitted
// as one [Queue.SubmitGroup] after the other.
type Queue struct {
	set        queueSettings
	rank, size int
	control    *Comm // ranks' cycles
	data       *Comm // tensors
	timeline   *timeline.Timeline
	wake       chan struct{} // has an element when the queue has news
	ended      chan struct{} // closed when the queue's goroutine has ended

	mu      sync.Mutex
	changed sync.Cond // a ticket is done, or a Wait was cancelled
	box     *negotiate.Outbox
	rules   *negotiate.Negotiator
	tensors map[string]*tensor
	joining *Joining // nil unless this rank has joined
	cycling bool     // a cycle is in progress
	broken  error    // error of a cycle made by Do
	ending  ending
	doing   activity
	place   place
	gpu     gpuPlace

	// Owned by whichever makes a cycle: the queue's goroutine, or Do.
	cycler
	runner
}

// ending is the end of a Queue.
type ending struct {
	closing     bool
	over        bool
	err         error // error of every call once over is set
	reportsLeft bool  // the next operation that fails notifies the job of err
	traceErr    error // error of the timeline
}

type queueSettings struct {
	fusion int64
	cache  int
	stall  time.Duration
	report func(text string)
	once   bool          // only the lowest rank that has submitted a tensor reports that it waits
	idle   time.Duration // idleTime, or less if a rank's stall is short
}

// QueueOption configures [NewQueue].
type QueueOption func(*queueSettings)

// WithFusion limits the bytes of tensors that are fused into one allreduce, 64 MiB by default. 0
// disables fusion. All ranks give the same limit. The Queue allocates up to that much memory when
// it needs it. Tensors of 1 MiB (128 KiB where all ranks share memory) or more are never fused.
func WithFusion(bytes int64) QueueOption { return func(s *queueSettings) { s.fusion = bytes } }

// WithCache sets how many names are remembered and sent as numbers of one or two bytes: 1024 by
// default, at most 1048576. All ranks give the same number.
func WithCache(names int) QueueOption { return func(s *queueSettings) { s.cache = names } }

// WithStall makes the Queue call report with one line for each tensor that some ranks submitted at
// least the time after ago and others have not; the line names those ranks. Ranks that do not
// answer at all are reported too. Reports are repeated after the same time. After is 25 s if
// zero. If report is nil, and without this option, gorun prints the text. Report runs on its own
// goroutine and must not close the Queue.
func WithStall(after time.Duration, report func(text string)) QueueOption {
	if after <= 0 {
		after = negotiate.DefaultStallAfter
	}
	return func(s *queueSettings) {
		s.stall = after
		s.report = report
	}
}

// NewQueue makes a queue for the ranks of c. It is a collective on c. Calls on c and other queues
// of c are independent of it. Ctx bounds only NewQueue. The queue ends with c; close it before c.
func NewQueue(ctx context.Context, c *Comm, opts ...QueueOption) (*Queue, error) {
	set := queueSettings{fusion: negotiate.DefaultFusion, cache: negotiate.DefaultCache,
		stall: negotiate.DefaultStallAfter}
	for _, opt := range opts {
		opt(&set)
	}
	if set.report == nil && c.agent != nil {
		set.once = true
		set.report = func(text string) { _ = c.agent.Stall(c.life, text) }
	}
	q := &Queue{
		set:      set,
		rank:     c.Rank(),
		size:     c.Size(),
		timeline: timeline.New(),
		box:      negotiate.NewOutbox(c.Rank(), c.Size()),
		wake:     make(chan struct{}, 1),
		ended:    make(chan struct{}),
		tensors:  map[string]*tensor{},
	}
	q.changed.L = &q.mu
	config := negotiate.Config{
		Rank:       q.rank,
		Size:       q.size,
		Cache:      set.cache,
		Fusion:     set.fusion,
		StallAfter: set.stall,
		Arrived:    q.arrived,
	}
	_, err := negotiate.New(config)
	if err = q.set.agree(ctx, c, err); err != nil {
		return nil, err
	}
	if q.control, err = split(ctx, c, 0, 0); err != nil {
		return nil, err
	}
	q.control.calls.lane.Close() // cycles say nothing, and there are many
	if q.data, err = split(ctx, c, 0, 0); err != nil {
		q.control.Close()
		return nil, err
	}
	config.Large = largeFar
	if q.data.whole() {
		config.Large = largeNear
	}
	if q.rules, err = negotiate.New(config); err != nil {
		q.control.Close()
		q.data.Close()
		return nil, err
	}
	q.cycler.init(q.size)
	q.runner.init(q.size)
	c.work.Go(q.run)
	return q, nil
}

// whole reports whether all ranks share memory.
func (c *Comm) whole() bool {
	c.calls.Lock()
	defer c.calls.Unlock()
	return c.calls.fabric != nil && c.calls.fabric.Whole()
}

// agree compares the settings of all ranks. Err is the error of this rank's settings, or nil.
func (s *queueSettings) agree(ctx context.Context, c *Comm, err error) error {
	mine := []int64{s.fusion, int64(s.cache), int64(s.stall), 0}
	if err != nil {
		mine[3] = 1
	}
	n := len(mine)
	all := make([]int64, n*c.Size())
	if gerr := AllGather(ctx, c, all, mine); gerr != nil {
		return gerr
	}
	if err != nil {
		return fmt.Errorf("ring: queue: %w", err)
	}
	s.idle = idleTime
	for rank := range c.Size() {
		theirs := all[n*rank:][:n]
		switch {
		case theirs[3] != 0:
			return fmt.Errorf("ring: queue: the options of rank %d on %s are wrong; see its error", rank, c.host(rank))
		case theirs[0] != mine[0] || theirs[1] != mine[1]:
			return fmt.Errorf("ring: queue: rank %d fuses %d bytes and remembers %d names, rank %d on %s %d and %d: "+
				"give all ranks the same options",
				c.Rank(), mine[0], mine[1], rank, c.host(rank), theirs[0], theirs[1])
		}
		s.idle = min(s.idle, max(time.Duration(theirs[2])/4, time.Millisecond))
	}
	return nil
}

// Close ends the queue on all ranks without finishing pending tensors: they fail here with
// [ErrClosed], and on other ranks with a [*PeerError] that names this rank. Tensors that all ranks
// have already agreed to run still run. To close without errors, wait for all tickets on all ranks
// first.
//
// Close returns when the other ranks know: within about a second if they are busy, and after 15
// seconds if one is stopped. Its error is that of a timeline that was not stopped. Closing again
// does nothing.
func (q *Queue) Close() error {
	q.mu.Lock()
	q.ending.closing = true
	q.mu.Unlock()
	q.nudge()
	timer := time.NewTimer(leaveTime)
	defer timer.Stop()
	select {
	case <-q.ended:
	case <-timer.C:
		q.control.Close()
		q.data.Close()
		<-q.ended
	}
	return q.ending.traceErr
}

func (q *Queue) nudge() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// end fails all pending tensors with err.
func (q *Queue) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ending.over = true
	q.ending.reportsLeft = errors.Is(err, errQueueClosed)
	q.ending.err = err
	if q.box.InFlight() > 0 || q.joining != nil {
		q.reportLeft()
	}
	for _, t := range q.tensors {
		if t.pending {
			t.finish(err)
		}
	}
	q.endJoin(0, err)
	q.changed.Broadcast()
}

// reportLeft notifies the job, once, that an operation fails because another rank has closed its
// queue. The lock is held.
func (q *Queue) reportLeft() {
	if !q.ending.reportsLeft {
		return
	}
	q.ending.reportsLeft = false
	if peer := new(PeerError); errors.As(q.ending.err, &peer) {
		q.control.reportLeft(peer.Rank, peer.Cause)
	}
}

// TensorMismatchError reports that ranks have submitted different collectives under one name. All
// ranks that have not joined get it. No data has moved, and the name can be used again.
type TensorMismatchError struct {
	Name  string
	Ranks [2]int    // two ranks that differ, the lower one first
	Said  [2]string // request of each, as in "allreduce sum of 12 f32"
}

func (e *TensorMismatchError) Error() string {
	return fmt.Sprintf("ring: tensor %q differs between ranks: rank %d submitted %s, rank %d submitted %s; all ranks "+
		"must submit the same",
		e.Name, e.Ranks[0], e.Said[0], e.Ranks[1], e.Said[1])
}

// fault converts an error of the negotiation to one of this package.
func fault(err error) error {
	if j := new(negotiate.JoinedError); errors.As(err, &j) {
		return &JoinedError{
			Name:   j.Name,
			Said:   j.Request.String(),
			Joined: j.Joined,
			Ranks:  j.First,
		}
	}
	if m := new(negotiate.MismatchError); errors.As(err, &m) {
		return &TensorMismatchError{Name: m.Name, Ranks: m.Ranks,
			Said: [2]string{m.Said[0].String(), m.Said[1].String()}}
	}
	return err
}

// DuplicateError reports that a name was submitted again before its operation had finished.
type DuplicateError struct{ Name string }

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("ring: tensor %q was submitted again while it is in flight: wait for it, or use another name",
		e.Name)
}
