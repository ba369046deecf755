package ring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/negotiate"
)

// How long a rank with tensors in flight and nothing new to say waits for the next cycle,
// when the one before brought nothing new from any rank: it doubles from one to the other.
const (
	minPause = 50 * time.Microsecond
	maxPause = time.Millisecond
)

// cycler is the state of cycles. It belongs to the goroutine that makes them.
type cycler struct {
	timer  *time.Timer   // timer of the queue's goroutine
	pause  time.Duration // before the next cycle, if tensors are in flight
	news   int           // requests in the last step, of all ranks
	frames []byte        // frames of all ranks
	rests  [][]byte
	beyond []byte // rest of all ranks' records
}

func (c *cycler) init(size int) {
	c.timer = time.NewTimer(idleTime)
	c.frames = make([]byte, size*negotiate.FrameSize)
	c.rests = make([][]byte, size)
}

func (q *Queue) run() {
	defer close(q.ended)
	defer q.timer.Stop()
	var watching sync.WaitGroup
	defer watching.Wait()
	if q.set.report != nil {
		stop := make(chan struct{})
		defer close(stop)
		watching.Go(func() { q.watch(stop) })
	}
	err := q.explain(q.cycles())
	q.settle()
	q.end(err)
	q.closeDevice()
	q.control.Close()
	q.data.Close()
	q.ending.traceErr = q.StopTimeline()
}

// cycles makes one cycle after the other. It returns the reason for the end.
func (q *Queue) cycles() error {
	for {
		if err := q.rest(); err != nil {
			return err
		}
		err := q.cycle()
		q.mu.Lock()
		q.cycling = false
		q.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// settle waits until no goroutine makes a cycle. A Do that makes one may still run its tensor.
func (q *Queue) settle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.cycling {
		q.changed.Wait()
	}
	q.cycling = true
}

// explain converts err to the error of submitted tensors.
func (q *Queue) explain(err error) error {
	if peer := new(PeerError); errors.As(err, &peer) {
		return &PeerError{
			Rank:  peer.Rank,
			Host:  peer.Host,
			Op:    "queue",
			Cause: peer.Cause,
		}
	}
	return err
}

// rest waits until the queue's goroutine must make a cycle: at once if this rank has news; soon if
// tensors are in flight or it has joined, because other ranks may have news about them; and
// otherwise now and then, to show the other ranks that this rank is alive.
func (q *Queue) rest() error {
	for due := false; ; {
		q.mu.Lock()
		fresh := len(q.box.List()) > 0 || q.ending.closing || q.rules.Joining()
		flying := q.box.InFlight() > 0 || q.joining != nil
		limit := q.set.idle
		if flying && !q.cycling {
			limit = q.pause
		}
		err := q.broken
		now := err == nil && (due || fresh || limit == 0) && !q.cycling
		q.cycling = q.cycling || now
		q.mu.Unlock()
		if now || err != nil {
			return err
		}
		q.timer.Reset(limit)
		select {
		case <-q.wake: // perhaps for what went with the last cycle
			due = false
		case <-q.timer.C:
			due = true
		case <-q.control.life.Done():
			return context.Cause(q.control.life)
		}
	}
}

// cycle exchanges news with all ranks and runs the tensors that are complete.
func (q *Queue) cycle() error {
	q.timeline.Cycle()
	frame := (*negotiate.Frame)(q.frames[q.rank*negotiate.FrameSize:])
	q.mu.Lock()
	if q.ending.closing {
		q.rules.Leave()
	}
	rest, sent := q.rules.Encode(frame, q.box.List())
	q.box.Sent(sent)
	q.doing = activity{what: "a cycle", since: time.Now()}
	q.mu.Unlock()

	err := q.control.Do(context.Background(), Collective{
		Kind: KindAllGather,
		Type: Uint8,
		Dst:  BufferOf(q.frames),
		Src:  BufferOf(frame[:]),
	})
	if err == nil {
		err = q.fetch(rest)
	}
	if err != nil {
		return err
	}
	out, err := q.step()
	if err != nil {
		return err
	}
	err = q.runAll(out.Batches)
	if err == nil && out.Joined {
		q.mu.Lock()
		q.endJoin(out.Last, nil)
		q.mu.Unlock()
	}
	return err
}

// fetch exchanges the bytes that did not fit the frames. Rest is this rank's.
func (q *Queue) fetch(rest []byte) error {
	clear(q.rests)
	counts, err := q.rules.Rests(q.frames)
	if err != nil {
		return fmt.Errorf("ring: queue: %w", err)
	}
	total := collective.Total(counts)
	if total == 0 {
		return nil
	}
	if cap(q.beyond) < total {
		q.beyond = make([]byte, total)
	}
	all := q.beyond[:total]
	at := 0
	for rank, n := range counts {
		q.rests[rank] = all[at : at+n]
		at += n
	}
	return q.control.Do(context.Background(), Collective{
		Kind:   KindAllGather,
		Type:   Uint8,
		Dst:    BufferOf(all),
		Src:    BufferOf(rest),
		Counts: counts,
	})
}

// step finds the complete tensors, and ends the failed ones.
func (q *Queue) step() (negotiate.Outcome, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.doing = activity{}
	q.news = 0
	out, err := q.rules.Step(time.Now(), q.frames, q.rests)
	switch {
	case err != nil:
		return out, fmt.Errorf("ring: queue: %w", err)
	case len(out.Left) > 0 && q.ending.closing:
		return out, ErrClosed
	case len(out.Left) > 0:
		rank := out.Left[0]
		return out, &PeerError{Rank: q.control.inJob(rank), Host: q.control.host(rank), Cause: errQueueClosed}
	}
	if q.news > 0 {
		q.pause = 0
	} else {
		q.pause = min(max(2*q.pause, minPause), maxPause)
	}
	for _, f := range out.Failures {
		t, err := q.find(f.Name)
		if err != nil {
			return out, err
		}
		kind := f.Kind
		if t != nil {
			kind = t.work.Kind
			t.finish(fault(f.Err))
		}
		if q.timeline.On() {
			q.timeline.Negotiated(f.Name, operation(kind))
		}
	}
	if len(out.Failures) > 0 {
		q.changed.Broadcast()
	}
	return out, q.collect(out.Batches)
}

// find returns this rank's part of a complete tensor, or nil if it has joined instead.
func (q *Queue) find(name string) (*tensor, error) {
	t := q.tensors[name]
	switch {
	case t != nil && t.pending:
		return t, nil
	case q.joining == nil:
		return nil, fmt.Errorf("ring: queue: tensor %.80q is complete, but rank %d did not submit it", name, q.rank)
	}
	return nil, nil
}
