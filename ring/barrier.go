package ring

import "context"

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm) error {
	return c.Do(ctx, Collective{Kind: KindBarrier})
}

// QueueBarrier submits [Barrier] to q: it is done when all ranks have submitted it.
func QueueBarrier(q *Queue, name string) (Ticket, error) {
	return q.Submit(name, Collective{Kind: KindBarrier})
}
