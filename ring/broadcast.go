package ring

import "context"

// Broadcast copies buf of rank root into buf on every other rank. All buffers have the same
// length.
func Broadcast[T Elem](ctx context.Context, c *Comm, buf []T, root int) error {
	return c.Do(ctx, broadcast(buf, root))
}

// BroadcastAsync starts [Broadcast].
func BroadcastAsync[T Elem](c *Comm, buf []T, root int) (Handle, error) {
	return c.Start(broadcast(buf, root))
}

// QueueBroadcast submits [Broadcast] of the tensor name to q.
func QueueBroadcast[T Elem](q *Queue, name string, buf []T, root int) (Ticket, error) {
	return q.Submit(name, broadcast(buf, root))
}

func broadcast[T Elem](buf []T, root int) Collective {
	return Collective{
		Kind: KindBroadcast,
		Type: typeOf[T](),
		Root: root,
		Dst:  BufferOf(buf),
	}
}
