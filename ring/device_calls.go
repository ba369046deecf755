package ring

import (
	"context"
	"unsafe"
)

// DeviceBuffer is memory of a GPU for n elements, for a [DeviceCall].
func DeviceBuffer(at uintptr, n int) Buffer {
	return Buffer{*(*unsafe.Pointer)(unsafe.Pointer(&at)), n} // no memory of Go's, so no pointer of its
}

// one enqueues one call.
func (d *Device) one(ctx context.Context, s Stream, w Collective) error {
	d.order.Lock()
	defer d.order.Unlock()
	d.single[0] = DeviceCall{Collective: w}
	return d.do(ctx, s, d.single[:])
}

// AllReduce is [AllReduceInto] for n elements at src and dst.
func (d *Device) AllReduce(ctx context.Context, s Stream, dst, src uintptr, n int, t Type, op Op) error {
	return d.one(ctx, s, Collective{Kind: KindAllReduce, Type: t, Op: op, Dst: DeviceBuffer(dst, n), Src: DeviceBuffer(src, n)})
}

// Reduce is [Reduce] of n elements.
func (d *Device) Reduce(ctx context.Context, s Stream, dst, src uintptr, n int, t Type, op Op, root int) error {
	w := Collective{Kind: KindReduce, Type: t, Op: op, Root: root, Src: DeviceBuffer(src, n)}
	if d.comm.Rank() == root {
		w.Dst = DeviceBuffer(dst, n)
	}
	return d.one(ctx, s, w)
}

// ReduceScatter is [ReduceScatter] to n elements of each rank.
func (d *Device) ReduceScatter(ctx context.Context, s Stream, dst, src uintptr, n int, t Type, op Op) error {
	return d.one(ctx, s, Collective{Kind: KindReduceScatter, Type: t, Op: op, Dst: DeviceBuffer(dst, n), Src: DeviceBuffer(src, n*d.comm.Size())})
}

// AllGather is [AllGather] of n elements of each rank.
func (d *Device) AllGather(ctx context.Context, s Stream, dst, src uintptr, n int, t Type) error {
	return d.one(ctx, s, Collective{Kind: KindAllGather, Type: t, Dst: DeviceBuffer(dst, n*d.comm.Size()), Src: DeviceBuffer(src, n)})
}

// Broadcast is [Broadcast] of n elements.
func (d *Device) Broadcast(ctx context.Context, s Stream, buf uintptr, n int, t Type, root int) error {
	return d.one(ctx, s, Collective{Kind: KindBroadcast, Type: t, Root: root, Dst: DeviceBuffer(buf, n)})
}

// AllToAll is [AllToAll] with n elements for each rank.
func (d *Device) AllToAll(ctx context.Context, s Stream, dst, src uintptr, n int, t Type) error {
	n *= d.comm.Size()
	return d.one(ctx, s, Collective{Kind: KindAllToAll, Type: t, Dst: DeviceBuffer(dst, n), Src: DeviceBuffer(src, n)})
}

// Send is [Send] of n elements. As all calls on a Device it is done when the stream gets there, so two ranks that send to each
// other do so in one call of [Device.Do].
func (d *Device) Send(ctx context.Context, s Stream, buf uintptr, n int, t Type, to int) error {
	return d.one(ctx, s, Collective{Kind: KindMessage, Type: t, Src: DeviceBuffer(buf, n), To: to, From: -1})
}

// Recv is [Recv] of n elements.
func (d *Device) Recv(ctx context.Context, s Stream, buf uintptr, n int, t Type, from int) error {
	return d.one(ctx, s, Collective{Kind: KindMessage, Type: t, Dst: DeviceBuffer(buf, n), To: -1, From: from})
}
