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
	return c.Do(ctx, allToAll(dst, src, counts, sends))
}

// AllToAllAsync starts [AllToAll].
func AllToAllAsync[T Elem](c *Comm, dst, src []T) (Handle, error) {
	return c.Start(allToAll(dst, src, nil, nil))
}

// QueueAllToAll submits [AllToAll] of the tensor name to q.
func QueueAllToAll[T Elem](q *Queue, name string, dst, src []T) (Ticket, error) {
	return q.Submit(name, allToAll(dst, src, nil, nil))
}

// QueueAllToAllV submits an alltoall of the tensor name to q, in which sends[i] elements of src go
// to rank i. The ranks exchange how many elements come from each.
func QueueAllToAllV[T Elem](q *Queue, name string, src []T, sends []int) (*Gathered[T], error) {
	return gathered[T](q, name, Collective{
		Kind:  KindAllToAll,
		Type:  typeOf[T](),
		Src:   BufferOf(src),
		Sends: sends,
	})
}

func allToAll[T Elem](dst, src []T, counts, sends []int) Collective {
	return Collective{
		Kind:   KindAllToAll,
		Type:   typeOf[T](),
		Dst:    BufferOf(dst),
		Src:    BufferOf(src),
		Counts: counts,
		Sends:  sends,
	}
}
