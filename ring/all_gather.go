package ring

import "context"

// AllGather puts the src of all ranks, in rank order, into dst on every rank. All src have the
// same length, and dst has Size times that length. Src may be this rank's own part of dst; other
// overlaps are an error.
func AllGather[T Elem](ctx context.Context, c *Comm, dst, src []T) error {
	return AllGatherV(ctx, c, dst, src, nil)
}

// AllGatherV is [AllGather] with parts of different lengths. Counts has the number of elements
// of each rank's part, and is the same on all ranks.
func AllGatherV[T Elem](ctx context.Context, c *Comm, dst, src []T, counts []int) error {
	return c.Do(ctx, with(Collective{Kind: KindAllGather, Counts: counts}, dst, src))
}

// AllGatherAsync starts [AllGather].
func AllGatherAsync[T Elem](c *Comm, dst, src []T) (Handle, error) {
	return c.Start(with(Collective{Kind: KindAllGather}, dst, src))
}

// QueueAllGather submits an allgather of the tensor name to q. Ranks may bring parts of
// different lengths.
func QueueAllGather[T Elem](q *Queue, name string, src []T) (*Gathered[T], error) {
	return gathered[T](q, name, with(Collective{Kind: KindAllGather}, nil, src))
}

// QueueAllGatherInto submits [AllGather] of the tensor name to q.
func QueueAllGatherInto[T Elem](q *Queue, name string, dst, src []T) (Ticket, error) {
	return q.Submit(name, with(Collective{Kind: KindAllGather}, dst, src))
}
