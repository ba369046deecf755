package ring

import (
	"context"

	"github.com/gorun/gorun/ring/internal/negotiate"
)

// Do submits a collective as [Queue.Submit] does, and waits for it as [Ticket.Wait] does. If ctx
// cannot end and no other tensor of this rank is pending, it works in the caller's goroutine, which
// is faster.
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

// SubmitHere is [Queue.Submit] that works on the collective in the caller's goroutine until it has
// finished or must wait for other ranks. It suits callers that then wait for the ticket with a
// context.
func (q *Queue) SubmitHere(name string, w Collective) (Ticket, error) {
	r, err := q.request(name, &w)
	if err != nil {
		return Ticket{}, err
	}
	return q.submitHere(context.Background(), r, w)
}

// submitHere submits r and makes cycles for it in this goroutine while no other tensor needs a
// cycle and only cycles can end the call. It saves two goroutine switches and a thread wakeup,
// which dominate on busy processors.
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
		q.cycling = false
		q.broken = err
		q.changed.Broadcast() // wakes settle
	}
	if q.busy() {
		q.nudge() // also for what others have submitted meanwhile
	}
	return t, nil
}

// busy reports whether the queue's goroutine has work. The lock is held.
func (q *Queue) busy() bool {
	return q.box.InFlight() > 0 || q.ending.closing || q.joining != nil || q.broken != nil
}
