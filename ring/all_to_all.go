package ring

import "context"

// AllToAll sends part i of src to rank i, and fills part i of dst with what rank i sends. Both
// have Size parts of the same length, and do not overlap.
func AllToAll[T Elem](ctx context.Context, c *Comm, dst, src []T) error {
	return AllToAllV(ctx, c, dst, src, nil, nil)
}

// AllToAllV is [AllToAll] with parts of different lengths: counts[i] elements come from rank i,
// and sends[i] elements go to it. Each rank sends as many elements as the receiver expects from it.
func AllToAllV[T Elem](ctx context.Context, c *Comm, dst, src []T, counts, sends []int) error {
	return c.Do(ctx, with(Collective{Kind: KindAllToAll, Counts: counts, Sends: sends}, dst, src))
}

// AllToAllAsync starts [AllToAll].
func AllToAllAsync[T Elem](c *Comm, dst, src []T) (Handle, error) {
	return c.Start(with(Collective{Kind: KindAllToAll}, dst, src))
}

// QueueAllToAll submits [AllToAll] of the tensor name to q.
func QueueAllToAll[T Elem](q *Queue, name string, dst, src []T) (Ticket, error) {
	return q.Submit(name, with(Collective{Kind: KindAllToAll}, dst, src))
}

// QueueAllToAllV submits an alltoall of the tensor name to q, in which sends[i] elements of src go
// to rank i. The ranks exchange how many elements come from each.
func QueueAllToAllV[T Elem](q *Queue, name string, src []T, sends []int) (*Gathered[T], error) {
	return gathered[T](q, name, with(Collective{Kind: KindAllToAll, Sends: sends}, nil, src))
}
