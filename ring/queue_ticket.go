package ring

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/negotiate"
)

// idleTensors is how many finished names a queue keeps, so that repeated names do not allocate.
const idleTensors = 4096

// Ticket is a tensor submitted to a [Queue]. It is a small value. The zero Ticket is done.
type Ticket struct {
	tensor *tensor
	turn   uint64
}

// tensor is one name in a queue. It is reused with its name after its outcome was waited for; turn
// counts the uses. The queue's lock guards it.
type tensor struct {
	queue   *Queue
	name    string
	work    Collective
	room    func(counts []int) Buffer // argument of SubmitV
	turn    uint64
	pending bool
	known   bool // the outcome was waited for
	slot    int  // index in the record
	err     error
}

// Done reports whether the operation has finished. It does not block.
func (t Ticket) Done() bool {
	if t.tensor == nil {
		return true
	}
	q := t.tensor.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	return t.over()
}

func (t Ticket) over() bool { return t.tensor.turn != t.turn || !t.tensor.pending }

// Wait returns the operation's error when it has finished. If ctx ends first, Wait returns an error
// that wraps ctx's and names the missing ranks, and the operation goes on. Wait may be called again
// until the name is submitted again; after that it returns only the error that ended the Queue, or
// nil.
func (t Ticket) Wait(ctx context.Context) error {
	if t.tensor == nil {
		return nil
	}
	q := t.tensor.queue
	defer q.alarm(ctx)()
	q.mu.Lock()
	defer q.mu.Unlock()
	for !t.over() && ctx.Err() == nil {
		q.changed.Wait()
	}
	switch {
	case t.tensor.turn != t.turn:
		return q.ending.err
	case t.tensor.pending:
		return q.late(t.tensor, ctx.Err())
	}
	t.tensor.known = true
	return t.tensor.err
}

// alarm wakes all waiters when ctx ends, until stop is called.
func (q *Queue) alarm(ctx context.Context) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return false }
	}
	return context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.changed.Broadcast()
	})
}

// late returns the error of a wait that cause has ended.
func (q *Queue) late(t *tensor, cause error) error {
	missing := q.rules.Missing(t.name)
	if missing == nil {
		return fmt.Errorf("ring: tensor %q is not done: %w", t.name, cause)
	}
	return fmt.Errorf("ring: tensor %q %s: %w", t.name, waitsFor(missing), cause)
}

// enter adds a request, or returns why it cannot. The lock is held.
func (q *Queue) enter(r negotiate.Request, w Collective, room func([]int) Buffer) (Ticket, error) {
	if err := q.box.Submit(r); err != nil {
		if errors.As(err, new(*negotiate.DuplicateError)) {
			return Ticket{}, &DuplicateError{r.Name}
		}
		return Ticket{}, fmt.Errorf("ring: queue: %w", err)
	}
	t := q.tensors[r.Name]
	if t == nil || !t.known {
		q.prune()
		t = &tensor{queue: q, name: r.Name}
		q.tensors[r.Name] = t
	}
	t.turn++
	t.work = w
	t.room = room
	t.err = nil
	t.pending = true
	t.known = false
	q.noteSubmitted(&r)
	size := max(w.Dst.Len, w.Src.Len) * w.Type.Size()
	t.slot = q.data.record.Submitted(q.data.name, uint8(w.Kind), uint64(size), r.Name)
	return Ticket{t, t.turn}, nil
}

// prune forgets finished names when there are many.
func (q *Queue) prune() {
	if len(q.tensors) <= q.box.InFlight()+idleTensors {
		return
	}
	for name, t := range q.tensors {
		if !t.pending {
			delete(q.tensors, name)
		}
	}
}

// finish ends the operation. The caller holds the lock and wakes the waiters.
func (t *tensor) finish(err error) {
	t.work = Collective{}
	t.room = nil // the caller's memory is not ours to keep
	t.pending = false
	t.err = err
	t.queue.data.record.Done(t.slot)
	t.queue.box.Done(t.name)
}

// Gathered is the result of a collective whose size is known only when it runs.
type Gathered[T Elem] struct {
	ticket Ticket
	all    []T
	counts []int
}

// Done reports whether the operation has finished. It does not block.
func (g *Gathered[T]) Done() bool { return g.ticket.Done() }

// Wait waits as [Ticket.Wait] does. It returns the elements from all ranks, in rank order, and the
// number from each rank.
func (g *Gathered[T]) Wait(ctx context.Context) (all []T, counts []int, err error) {
	if err := g.ticket.Wait(ctx); err != nil {
		return nil, nil, err
	}
	return g.all, g.counts, nil
}

// gathered submits w, whose result has a size that is known only when it runs.
func gathered[T Elem](q *Queue, name string, w Collective) (*Gathered[T], error) {
	g := new(Gathered[T])
	var err error
	if g.ticket, err = q.SubmitV(name, w, g.room); err != nil {
		return nil, err
	}
	return g, nil
}

func (g *Gathered[T]) room(counts []int) Buffer {
	g.counts = append([]int(nil), counts...)
	g.all = make([]T, collective.Total(counts))
	return BufferOf(g.all)
}
