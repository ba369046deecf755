package ring

import "context"

// AllReduce combines the buffers of all ranks with op, element by element, and
// leaves the result in buf on every rank. All buffers have the same length, which
// may be zero.
func AllReduce[T Elem](ctx context.Context, c *Comm, buf []T, op Op) error {
	return AllReduceInto(ctx, c, buf, buf, op)
}

// AllReduceInto is AllReduce from src into dst, which has the same length. Src
// stays as it is, also when the call fails. They must not overlap, unless they are the
// same.
func AllReduceInto[T Elem](ctx context.Context, c *Comm, dst, src []T, op Op) error {
	return c.Do(ctx, Collective{Kind: KindAllReduce, Type: typeOf[T](), Op: op, Dst: BufferOf(dst), Src: BufferOf(src)})
}

// Reduce combines the src of all ranks with op into dst of rank root. Dst is not used on
// other ranks, and may be nil there. On the root it may be src.
func Reduce[T Elem](ctx context.Context, c *Comm, dst, src []T, op Op, root int) error {
	if c.Rank() != root {
		dst = nil
	}
	return c.Do(ctx, Collective{Kind: KindReduce, Type: typeOf[T](), Op: op, Root: root, Dst: BufferOf(dst), Src: BufferOf(src)})
}

// ReduceScatter combines the src of all ranks with op and gives each rank its part of
// the result, in the order of ranks, in dst. Src is Size times as long as dst. Dst may
// be this rank's own part of src; other overlaps are an error.
func ReduceScatter[T Elem](ctx context.Context, c *Comm, dst, src []T, op Op) error {
	return ReduceScatterV(ctx, c, dst, src, nil, op)
}

// ReduceScatterV is ReduceScatter with parts of unlike lengths: counts says how many
// elements each rank gets, and is the same on all ranks.
func ReduceScatterV[T Elem](ctx context.Context, c *Comm, dst, src []T, counts []int, op Op) error {
	return c.Do(ctx, Collective{Kind: KindReduceScatter, Type: typeOf[T](), Op: op, Dst: BufferOf(dst), Src: BufferOf(src), Counts: counts})
}

// Broadcast copies root's buf into buf on every other rank. All buffers have the
// same length.
func Broadcast[T Elem](ctx context.Context, c *Comm, buf []T, root int) error {
	return c.Do(ctx, Collective{Kind: KindBroadcast, Type: typeOf[T](), Root: root, Dst: BufferOf(buf)})
}

// AllGather puts the src of all ranks, in the order of ranks, into dst on every
// rank. All src have the same length, and dst is Size times as long. Src may be
// this rank's own part of dst; other overlaps are an error.
func AllGather[T Elem](ctx context.Context, c *Comm, dst, src []T) error {
	return AllGatherV(ctx, c, dst, src, nil)
}

// AllGatherV is AllGather with parts of unlike lengths: counts says how many elements
// each rank brings, and is the same on all ranks.
func AllGatherV[T Elem](ctx context.Context, c *Comm, dst, src []T, counts []int) error {
	return c.Do(ctx, Collective{Kind: KindAllGather, Type: typeOf[T](), Dst: BufferOf(dst), Src: BufferOf(src), Counts: counts})
}

// Gather puts the src of all ranks, in the order of ranks, into dst of rank root. Dst is
// not used on other ranks, and may be nil there.
func Gather[T Elem](ctx context.Context, c *Comm, dst, src []T, root int) error {
	return GatherV(ctx, c, dst, src, nil, root)
}

// GatherV is Gather with parts of unlike lengths: counts says how many elements each
// rank brings, and is the same on all ranks.
func GatherV[T Elem](ctx context.Context, c *Comm, dst, src []T, counts []int, root int) error {
	if c.Rank() != root {
		dst = nil
	}
	return c.Do(ctx, Collective{Kind: KindGather, Type: typeOf[T](), Root: root, Dst: BufferOf(dst), Src: BufferOf(src), Counts: counts})
}

// Scatter gives every rank its part of root's src, in the order of ranks, in dst. Src is
// not used on other ranks, and may be nil there.
func Scatter[T Elem](ctx context.Context, c *Comm, dst, src []T, root int) error {
	return ScatterV(ctx, c, dst, src, nil, root)
}

// ScatterV is Scatter with parts of unlike lengths: counts says how many elements each
// rank gets, and is the same on all ranks.
func ScatterV[T Elem](ctx context.Context, c *Comm, dst, src []T, counts []int, root int) error {
	if c.Rank() != root {
		src = nil
	}
	return c.Do(ctx, Collective{Kind: KindScatter, Type: typeOf[T](), Root: root, Dst: BufferOf(dst), Src: BufferOf(src), Counts: counts})
}

// AllToAll sends part i of src to rank i, and puts what rank i sends into part i of
// dst. Both have Size parts of the same length, and do not overlap.
func AllToAll[T Elem](ctx context.Context, c *Comm, dst, src []T) error {
	return AllToAllV(ctx, c, dst, src, nil, nil)
}

// AllToAllV is AllToAll with parts of unlike lengths: counts says how many elements come
// from each rank, sends how many go to each. What one rank sends to another is
// what that one expects.
func AllToAllV[T Elem](ctx context.Context, c *Comm, dst, src []T, counts, sends []int) error {
	return c.Do(ctx, Collective{Kind: KindAllToAll, Type: typeOf[T](), Dst: BufferOf(dst), Src: BufferOf(src), Counts: counts, Sends: sends})
}

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm) error {
	return c.Do(ctx, Collective{Kind: KindBarrier})
}

// Send gives buf to rank to, which takes it with [Recv] or [SendRecv] into a buffer of
// the same length. It returns when buf may be written again. Between two ranks messages
// and collectives come in the same order on both sides.
func Send[T Elem](ctx context.Context, c *Comm, buf []T, to int) error {
	return c.Do(ctx, Collective{Kind: KindMessage, Type: typeOf[T](), Src: BufferOf(buf), To: to, From: -1})
}

// Recv fills buf with what rank from sends.
func Recv[T Elem](ctx context.Context, c *Comm, buf []T, from int) error {
	return c.Do(ctx, Collective{Kind: KindMessage, Type: typeOf[T](), Dst: BufferOf(buf), To: -1, From: from})
}

// SendRecv sends src to rank to while dst is filled by rank from.
func SendRecv[T Elem](ctx context.Context, c *Comm, dst []T, from int, src []T, to int) error {
	return c.Do(ctx, Collective{Kind: KindMessage, Type: typeOf[T](), Dst: BufferOf(dst), Src: BufferOf(src), To: to, From: from})
}
