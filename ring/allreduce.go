package ring

import "context"

// AllReduce combines the buffers of all ranks with op, element by element, and leaves the
// result in buf on every rank, with the same bits. All buffers have the same length, which may
// be zero. After an error the contents of buf are undefined.
//
// The algorithm, which Fabric.allReduce of the engine picks, depends on where the ranks run and
// on the length. Ranks that share memory reduce there. Ranks that share none use recursive
// doubling for short vectors, a circulant graph (Träff, 2024) for medium ones and a ring
// (Patarasuk and Yuan, 2009) for long ones. Otherwise each host reduces in memory, its ranks
// exchange one shard each with the other hosts, and the result is spread in memory again.
func AllReduce[T Elem](ctx context.Context, c *Comm, buf []T, op Op) error {
	return AllReduceInto(ctx, c, buf, buf, op)
}

// AllReduceInto is [AllReduce] from src into dst, which has the same length. Src keeps its
// contents, also after an error. The two are the same slice, or do not overlap.
func AllReduceInto[T Elem](ctx context.Context, c *Comm, dst, src []T, op Op) error {
	w := with(Collective{Kind: KindAllReduce, Op: op}, dst, src)
	return c.do(ctx, &w)
}

// AllReduceAsync starts [AllReduceInto].
func AllReduceAsync[T Elem](c *Comm, dst, src []T, op Op) (Handle, error) {
	return c.Start(with(Collective{Kind: KindAllReduce, Op: op}, dst, src))
}

// QueueAllReduce submits [AllReduceInto] of the tensor name to q. Dst may be src.
func QueueAllReduce[T Elem](q *Queue, name string, dst, src []T, op Op) (Ticket, error) {
	return q.Submit(name, with(Collective{Kind: KindAllReduce, Op: op}, dst, src))
}
