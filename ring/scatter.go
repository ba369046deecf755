package ring

import "context"

// Scatter gives every rank its part of the root's src, in rank order, in dst. All dst have the
// same length; the root's src has Size times that length. Other ranks do not use src and may pass
// nil.
func Scatter[T Elem](ctx context.Context, c *Comm, dst, src []T, root int) error {
	return ScatterV(ctx, c, dst, src, nil, root)
}

// ScatterV is [Scatter] with parts of different lengths. Counts has the number of elements of
// each rank's part, and is the same on all ranks.
func ScatterV[T Elem](ctx context.Context, c *Comm, dst, src []T, counts []int, root int) error {
	if c.Rank() != root {
		src = nil
	}
	return c.Do(ctx, with(Collective{Kind: KindScatter, Root: root, Counts: counts}, dst, src))
}
