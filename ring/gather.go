package ring

import "context"

// Gather puts the src of all ranks, in rank order, into dst of rank root. All src have the same
// length; the root's dst has Size times that length. Other ranks do not use dst and may pass nil.
func Gather[T Elem](ctx context.Context, c *Comm, dst, src []T, root int) error {
	return GatherV(ctx, c, dst, src, nil, root)
}

// GatherV is [Gather] with parts of different lengths. Counts has the number of elements of each
// rank's part, and is the same on all ranks.
func GatherV[T Elem](ctx context.Context, c *Comm, dst, src []T, counts []int, root int) error {
	if c.Rank() != root {
		dst = nil
	}
	return c.Do(ctx, with(Collective{Kind: KindGather, Root: root, Counts: counts}, dst, src))
}
