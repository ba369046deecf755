package ring

import "context"

// ReduceScatter combines the src of all ranks with op and gives each rank its part of the
// result, in rank order, in dst. Src has Size times the length of dst. Dst may be this rank's own
// part of src; other overlaps are an error.
//
// Where ranks share memory on several hosts, each host reduces in memory and its ranks exchange
// one shard each with the other hosts.
func ReduceScatter[T Elem](ctx context.Context, c *Comm, dst, src []T, op Op) error {
	return ReduceScatterV(ctx, c, dst, src, nil, op)
}

// ReduceScatterV is [ReduceScatter] with parts of different lengths. Counts has the number of
// elements of each rank's part, and is the same on all ranks.
func ReduceScatterV[T Elem](ctx context.Context, c *Comm, dst, src []T, counts []int, op Op) error {
	return c.Do(ctx, with(Collective{Kind: KindReduceScatter, Op: op, Counts: counts}, dst, src))
}

// ReduceScatterAsync starts [ReduceScatter].
func ReduceScatterAsync[T Elem](c *Comm, dst, src []T, op Op) (Handle, error) {
	return c.Start(with(Collective{Kind: KindReduceScatter, Op: op}, dst, src))
}

// QueueReduceScatter submits [ReduceScatter] of the tensor name to q.
func QueueReduceScatter[T Elem](q *Queue, name string, dst, src []T, op Op) (Ticket, error) {
	return q.Submit(name, with(Collective{Kind: KindReduceScatter, Op: op}, dst, src))
}
