package ring

import "context"

// Reduce combines the src of all ranks with op, element by element, into dst of rank root. All
// src have the same length. Other ranks do not use dst and may pass nil. On the root dst has the
// length of src, and may be src.
//
// A short vector is reduced as by [AllReduce]. For a long one each rank finishes one part, and the
// root gathers the parts.
func Reduce[T Elem](ctx context.Context, c *Comm, dst, src []T, op Op, root int) error {
	if c.Rank() != root {
		dst = nil
	}
	return c.Do(ctx, with(Collective{Kind: KindReduce, Op: op, Root: root}, dst, src))
}
