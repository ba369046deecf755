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
	return c.Do(ctx, allGather(dst, src, counts))
}

// AllGatherAsync starts [AllGather].
func AllGatherAsync[T Elem](c *Comm, dst, src []T) (Handle, error) {
	return c.Start(allGather(dst, src, nil))
}

// QueueAllGather submits an allgather of the tensor name to q. Ranks may bring parts of
// different lengths.
func QueueAllGather[T Elem](q *Queue, name string, src []T) (*Gathered[T], error) {
	return gathered[T](q, name, Collective{Kind: KindAllGather, Type: typeOf[T](), Src: BufferOf(src)})
}

// QueueAllGatherInto submits [AllGather] of the tensor name to q.
func QueueAllGatherInto[T Elem](q *Queue, name string, dst, src []T) (Ticket, error) {
	return q.Submit(name, allGather(dst, src, nil))
}

func allGather[T Elem](dst, src []T, counts []int) Collective {
	return Collective{
		Kind:   KindAllGather,
		Type:   typeOf[T](),
		Dst:    BufferOf(dst),
		Src:    BufferOf(src),
		Counts: counts,
	}
}
