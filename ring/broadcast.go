package ring

import "context"

// Broadcast copies buf of rank root into buf on every other rank. All buffers have the same
// length.
func Broadcast[T Elem](ctx context.Context, c *Comm, buf []T, root int) error {
	return c.Do(ctx, with(Collective{Kind: KindBroadcast, Root: root}, buf, nil))
}

// BroadcastAsync starts [Broadcast].
func BroadcastAsync[T Elem](c *Comm, buf []T, root int) (Handle, error) {
	return c.Start(with(Collective{Kind: KindBroadcast, Root: root}, buf, nil))
}

// QueueBroadcast submits [Broadcast] of the tensor name to q.
func QueueBroadcast[T Elem](q *Queue, name string, buf []T, root int) (Ticket, error) {
	return q.Submit(name, with(Collective{Kind: KindBroadcast, Root: root}, buf, nil))
}
