package ring

import (
	"context"
	"fmt"
)

// AllReduce combines the buffers of all ranks with op, element by element, and
// leaves the result in buf on every rank. All buffers have the same length, which
// may be zero.
func AllReduce[T Elem](ctx context.Context, c *Comm, buf []T, op Op) error {
	call := Call{Kind: KindAllReduce, Type: typeOf[T](), Op: op, Count: uint64(len(buf))}
	if !op.valid(call.Type) {
		return fmt.Errorf("ring: allreduce: no %v of %v", op, call.Type)
	}
	b := bytesOf(buf)
	return c.run(ctx, call, func(g group, call Call) error { return g.allReduce(call, b, b) })
}

// AllReduceInto is AllReduce from src into dst, which has the same length. Src
// stays as it is, also when the call fails. They must not overlap, unless they are the
// same.
func AllReduceInto[T Elem](ctx context.Context, c *Comm, dst, src []T, op Op) error {
	call := Call{Kind: KindAllReduce, Type: typeOf[T](), Op: op, Count: uint64(len(src))}
	if !op.valid(call.Type) {
		return fmt.Errorf("ring: allreduce: no %v of %v", op, call.Type)
	}
	to, from := bytesOf(dst), bytesOf(src)
	switch {
	case len(dst) != len(src):
		return fmt.Errorf("ring: allreduce: dst has %d elements and src %d", len(dst), len(src))
	case len(src) > 0 && &dst[0] != &src[0] && overlap(to, from):
		return fmt.Errorf("ring: allreduce: src overlaps dst, but is not the same")
	}
	return c.run(ctx, call, func(g group, call Call) error { return g.allReduce(call, to, from) })
}

// Broadcast copies root's buf into buf on every other rank. All buffers have the
// same length.
func Broadcast[T Elem](ctx context.Context, c *Comm, buf []T, root int) error {
	if root < 0 || root >= c.Size() {
		return fmt.Errorf("ring: broadcast: root %d is not one of %d ranks", root, c.Size())
	}
	call := Call{Kind: KindBroadcast, Type: typeOf[T](), Root: uint32(root), Count: uint64(len(buf))}
	return c.run(ctx, call, func(g group, call Call) error { return g.broadcast(call, bytesOf(buf)) })
}

// AllGather puts the src of all ranks, in the order of ranks, into dst on every
// rank. All src have the same length, and dst is Size times as long. Src may be
// this rank's own part of dst; other overlaps are an error.
func AllGather[T Elem](ctx context.Context, c *Comm, dst, src []T) error {
	n := len(src)
	if len(dst) != c.Size()*n {
		return fmt.Errorf("ring: allgather: dst has %d elements, want %d from each of %d ranks", len(dst), n, c.Size())
	}
	to, from := bytesOf(dst), bytesOf(src)
	if n > 0 && &dst[c.Rank()*n] != &src[0] && overlap(to, from) {
		return fmt.Errorf("ring: allgather: src overlaps dst, but is not the part of rank %d", c.Rank())
	}
	call := Call{Kind: KindAllGather, Type: typeOf[T](), Count: uint64(n)}
	return c.run(ctx, call, func(g group, call Call) error { return g.allGather(call, to, from) })
}

// Barrier returns when all ranks have called it.
func Barrier(ctx context.Context, c *Comm) error {
	return c.run(ctx, Call{Kind: KindBarrier}, func(g group, call Call) error { return g.barrier(call) })
}
