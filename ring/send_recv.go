package ring

import "context"

// Send sends buf to rank to, which receives it with [Recv] or [SendRecv] into a buffer of the same
// length. It returns when buf may be written again, and may wait for the receiver until then.
// Messages and collectives between two ranks have the same order on both.
func Send[T Elem](ctx context.Context, c *Comm, buf []T, to int) error {
	return c.Do(ctx, with(Collective{Kind: KindMessage, To: to, From: -1}, nil, buf))
}

// Recv fills buf with a message from rank from.
func Recv[T Elem](ctx context.Context, c *Comm, buf []T, from int) error {
	return c.Do(ctx, with(Collective{Kind: KindMessage, To: -1, From: from}, buf, nil))
}

// SendRecv sends src to rank to while dst is filled by rank from.
func SendRecv[T Elem](ctx context.Context, c *Comm, dst []T, from int, src []T, to int) error {
	return c.Do(ctx, with(Collective{Kind: KindMessage, To: to, From: from}, dst, src))
}
