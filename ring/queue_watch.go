package ring

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gorun/gorun/ring/internal/negotiate"
	"github.com/gorun/gorun/ring/internal/timeline"
)

// activity is what the queue's goroutine does with the other ranks. Zero is nothing.
type activity struct {
	what, name string
	since      time.Time
	reported   time.Time // time of the last stall report, else zero
}

// stalled reports whether the activity has lasted for limit and was not reported within limit.
func (a *activity) stalled(now time.Time, limit time.Duration) bool {
	return !a.since.IsZero() && now.Sub(a.since) >= limit && (a.reported.IsZero() || now.Sub(a.reported) >= limit)
}

func (a *activity) String() string {
	if a.name == "" {
		return a.what
	}
	return fmt.Sprintf("%s of tensor %q", a.what, a.name)
}

// watch reports stalls until stop is closed.
func (q *Queue) watch(stop <-chan struct{}) {
	tick := time.NewTicker(max(q.set.stall/8, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, line := range q.stalls(time.Now()) {
				q.set.report(line)
			}
		case <-stop:
			return
		}
	}
}

// stalls returns the lines to report now.
func (q *Queue) stalls(now time.Time) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var lines []string
	stalls, more := q.rules.Stalled(now)
	for _, s := range stalls {
		if !q.set.once || q.rank == s.Ready[0] {
			lines = append(lines, s.Line(now)+q.place.text(q.control.inJob(q.rank)))
		}
	}
	if more > 0 && len(lines) > 0 {
		lines = append(lines, fmt.Sprintf("%d more tensors have waited as long", more))
	}
	if q.doing.stalled(now, q.set.stall) {
		q.doing.reported = now
		lines = append(lines, fmt.Sprintf("%v waits for the other ranks since %v: one is stopped, cannot be reached, "+
			"or is very busy",
			&q.doing, now.Sub(q.doing.since).Round(time.Second))+q.place.text(q.control.inJob(q.rank)))
	}
	return lines
}

// TimelineOptions configures [Queue.StartTimeline].
type TimelineOptions struct {
	Buffer     int  // events that may wait for the writer, what is more is dropped; 0: 16384, of about 130 bytes each
	MarkCycles bool // write a mark for each negotiation cycle
	// Append goes on with what this Queue wrote to the same writer, such as a file, before
	// it was stopped.
	Append bool
}

// StartTimeline writes the events of each tensor on this rank to w, as Chrome trace events for
// chrome://tracing and Perfetto. The phases are those of Horovod's timeline: NEGOTIATE_ALLREDUCE
// until all ranks have submitted the tensor, with a mark for each rank, then ALLREDUCE, which
// contains QUEUE, MEMCPY_IN_FUSION_BUFFER, RING_ALLREDUCE and MEMCPY_OUT_FUSION_BUFFER. The caller
// closes w after [Queue.StopTimeline].
func (q *Queue) StartTimeline(w io.Writer, o TimelineOptions) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ending.over {
		return errors.New("ring: timeline: the queue is closed")
	}
	if err := q.timeline.Start(w, timeline.Options(o)); err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	return nil
}

// StopTimeline writes the rest of the timeline and returns when that is done. Without a timeline it
// does nothing. The end of the queue also stops the timeline.
func (q *Queue) StopTimeline() error {
	if err := q.timeline.Stop(); err != nil {
		return fmt.Errorf("ring: %w", err)
	}
	return nil
}

// noteSubmitted starts a negotiation in the timeline unless another rank has started it. The lock
// is held.
func (q *Queue) noteSubmitted(r *negotiate.Request) {
	if !q.timeline.On() {
		return
	}
	if !q.rules.Open(r.Name) {
		q.timeline.Negotiate(r.Name, operation(r.Kind))
	}
	q.timeline.Ready(r.Name, q.rank)
}

// arrived is called for each request of each rank in a step. The lock is held.
func (q *Queue) arrived(name string, kind Kind, rank int, first bool) {
	q.news++
	if !q.timeline.On() || rank == q.rank {
		return
	}
	if t := q.tensors[name]; first && (t == nil || !t.pending) {
		q.timeline.Negotiate(name, operation(kind))
	}
	q.timeline.Ready(name, rank)
}

func (q *Queue) noteAgreed(item *negotiate.Item) {
	if q.timeline.On() {
		q.timeline.Negotiated(item.Name, operation(item.Kind))
		q.timeline.Begin(item.Name, operation(item.Kind))
		q.timeline.Enter(item.Name, timeline.Queue)
	}
}

func (q *Queue) noteEnd(item *negotiate.Item) {
	if !q.timeline.On() {
		return
	}
	var args timeline.Args
	if item.Kind != KindBarrier {
		args = timeline.Args{DType: item.Type.String(), Count: item.Count}
	}
	q.timeline.End(item.Name, operation(item.Kind), args)
}

// operation returns the name of k in a timeline.
func operation(k Kind) string { return movePhase(k)[len("RING_"):] }

// movePhase returns the name of the phase in which k moves data.
func movePhase(k Kind) string {
	switch k {
	case KindBroadcast:
		return "RING_BROADCAST"
	case KindAllGather:
		return "RING_ALLGATHER"
	case KindAllReduce:
		return "RING_ALLREDUCE"
	case KindReduceScatter:
		return "RING_REDUCESCATTER"
	case KindAllToAll:
		return "RING_ALLTOALL"
	}
	return "RING_BARRIER"
}
