package ring

import (
	"context"

	"github.com/gorun/gorun/ring/internal/negotiate"
)

// Do submits a collective, as [Queue.Submit] does, and waits for it, as [Ticket.Wait] does. If nothing
// else is in flight on this rank, and ctx cannot end, it does so faster than those two: in the caller's
// goroutine. Then it is for the other ranks alone to end it.
func (q *Queue) Do(ctx context.Context, name string, w Collective) error {
	r, err := q.request(name, &w)
	if err != nil {
		return err
	}
	t, err := q.submitHere(ctx, r, w)
	if err != nil {
		return err
	}
	return t.Wait(ctx)
}

// SubmitHere is Submit that works on the collective in the caller's goroutine, as Do does, until it is over or
// has to wait for other ranks: for callers that wait with the ticket then, and want to be able to stop that.
func (q *Queue) SubmitHere(name string, w Collective) (Ticket, error) {
	r, err := q.request(name, &w)
	if err != nil {
		return Ticket{}, err
	}
	return q.submitHere(context.Background(), r, w)
}

// submitHere submits r, and makes cycles for it in this goroutine as long as that does no harm: while
// no other tensor waits for what a cycle brings, and only cycles can end the call. It spares two switches
// between goroutines, and waking a thread, which take longer than all else where processors are busy.
func (q *Queue) submitHere(ctx context.Context, r negotiate.Request, w Collective) (Ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.open(); err != nil {
		return Ticket{}, err
	}
	t, err := q.enter(r, w, nil)
	if err != nil {
		return Ticket{}, err
	}
	for !t.over() && !q.cycling && q.box.InFlight() == 1 && ctx.Done() == nil && q.open() == nil && q.broken == nil {
		if len(q.box.List()) == 0 && q.pause > 0 {
			break // the queue's goroutine knows how to wait for the others
		}
		q.cycling = true
		q.mu.Unlock()
		err := q.cycle()
		q.mu.Lock()
		q.cycling, q.broken = false, err
		q.changed.Broadcast() // for settle
	}
	if q.busy() {
		q.nudge() // also for what others have submitted meanwhile
	}
	return t, nil
}

// busy reports whether the queue's goroutine has something to do. The lock is held.
func (q *Queue) busy() bool {
	return q.box.InFlight() > 0 || q.closing || q.joining != nil || q.broken != nil
}
