package ring

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun/gorun/ring/internal/negotiate"
)

// idleTensors is how many names that are not in flight a queue keeps, so that names that
// come again cost no allocation.
const idleTensors = 4096

// Ticket is a tensor that was submitted to a [Queue]. It is a small value; the zero Ticket
// is one that is over.
type Ticket struct {
	tensor *tensor
	turn   uint64
}

// tensor is one name in a queue. It is used again when the name is, unless the outcome
// before is still to be waited for; turn counts the uses. The queue's lock guards it.
type tensor struct {
	queue   *Queue
	name    string
	work    Collective
	room    func(counts []int) Buffer // of SubmitV
	turn    uint64
	pending bool
	known   bool // the outcome was waited for
	err     error
}

// Done reports whether the operation is over, without waiting.
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

// Wait returns when the operation is over, with its error. When ctx ends first, Wait
// returns an error that wraps ctx's and names the ranks that are missing, and the
// operation goes on. Wait may be called again, until the name is submitted again: then it
// returns only what ended the Queue, if something did.
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
		return q.err
	case t.tensor.pending:
		return q.late(t.tensor, ctx.Err())
	}
	t.tensor.known = true
	return t.tensor.err
}

// alarm makes the end of ctx wake those who wait, until stop is called.
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

// late is the error of a wait that cause has ended.
func (q *Queue) late(t *tensor, cause error) error {
	missing := q.rules.Missing(t.name)
	if missing == nil {
		return fmt.Errorf("ring: tensor %q is not done: %w", t.name, cause)
	}
	return fmt.Errorf("ring: tensor %q %s: %w", t.name, waitsFor(missing), cause)
}

// enter takes a request, or says why not. The lock is held.
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
	t.work, t.room, t.err, t.pending, t.known = w, room, nil, true, false
	q.noteSubmitted(&r)
	return Ticket{t, t.turn}, nil
}

// prune forgets names when there are many that are not in flight.
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

// finish ends the operation. The caller holds the lock, and wakes those who wait.
func (t *tensor) finish(err error) {
	t.work, t.room = Collective{}, nil // the caller's memory is not ours to keep
	t.pending, t.err = false, err
	t.queue.box.Done(t.name)
}

// Gathered is the result of a collective whose size is known only when it runs.
type Gathered[T Elem] struct {
	ticket Ticket
	all    []T
	counts []int
}

// Done reports whether the operation is over, without waiting.
func (g *Gathered[T]) Done() bool { return g.ticket.Done() }

// Wait returns when the operation is over, as [Ticket.Wait] does, with the elements from
// all ranks, in the order of ranks, and how many came from each.
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

// room makes the memory for the result.
func (g *Gathered[T]) room(counts []int) Buffer {
	g.counts = append([]int(nil), counts...)
	g.all = make([]T, sum(counts))
	return BufferOf(g.all)
}
