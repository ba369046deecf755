package ring

import (
	"context"
	"unsafe"
)

// DeviceBuffer returns GPU memory for n elements at the device address at, for a [DeviceCall].
func DeviceBuffer(at uintptr, n int) Buffer {
	return Buffer{Ptr: *(*unsafe.Pointer)(unsafe.Pointer(&at)), Len: n} // not Go memory, so not a Go pointer
}

// one enqueues one call.
func (d *Device) one(ctx context.Context, s Stream, w Collective) error {
	d.order.Lock()
	defer d.order.Unlock()
	d.single[0] = DeviceCall{Collective: w}
	return d.do(ctx, s, d.single[:])
}

// AllReduce enqueues [AllReduceInto] of n elements from src to dst. Dst may be src.
func (d *Device) AllReduce(ctx context.Context, s Stream, dst, src uintptr, n int, t Type, op Op) error {
	return d.one(ctx, s, Collective{
		Kind: KindAllReduce,
		Type: t,
		Op:   op,
		Dst:  DeviceBuffer(dst, n),
		Src:  DeviceBuffer(src, n),
	})
}

// Reduce enqueues [Reduce] of n elements. Only the root uses dst.
func (d *Device) Reduce(ctx context.Context, s Stream, dst, src uintptr, n int, t Type, op Op, root int) error {
	w := Collective{
		Kind: KindReduce,
		Type: t,
		Op:   op,
		Root: root,
		Src:  DeviceBuffer(src, n),
	}
	if d.comm.Rank() == root {
		w.Dst = DeviceBuffer(dst, n)
	}
	return d.one(ctx, s, w)
}

// ReduceScatter enqueues [ReduceScatter]: n elements at dst, and n times Size at src.
func (d *Device) ReduceScatter(ctx context.Context, s Stream, dst, src uintptr, n int, t Type, op Op) error {
	return d.one(ctx, s, Collective{
		Kind: KindReduceScatter,
		Type: t,
		Op:   op,
		Dst:  DeviceBuffer(dst, n),
		Src:  DeviceBuffer(src, n*d.comm.Size()),
	})
}

// AllGather enqueues [AllGather]: n elements at src, and n times Size at dst.
func (d *Device) AllGather(ctx context.Context, s Stream, dst, src uintptr, n int, t Type) error {
	return d.one(ctx, s, Collective{
		Kind: KindAllGather,
		Type: t,
		Dst:  DeviceBuffer(dst, n*d.comm.Size()),
		Src:  DeviceBuffer(src, n),
	})
}

// Broadcast enqueues [Broadcast] of n elements.
func (d *Device) Broadcast(ctx context.Context, s Stream, buf uintptr, n int, t Type, root int) error {
	return d.one(ctx, s, Collective{
		Kind: KindBroadcast,
		Type: t,
		Root: root,
		Dst:  DeviceBuffer(buf, n),
	})
}

// AllToAll enqueues [AllToAll] with n elements for each rank, n times Size at src and dst.
func (d *Device) AllToAll(ctx context.Context, s Stream, dst, src uintptr, n int, t Type) error {
	n *= d.comm.Size()
	return d.one(ctx, s, Collective{
		Kind: KindAllToAll,
		Type: t,
		Dst:  DeviceBuffer(dst, n),
		Src:  DeviceBuffer(src, n),
	})
}

// Send enqueues [Send] of n elements. Two ranks that send to each other must do both messages in
// one call of [Device.Do].
func (d *Device) Send(ctx context.Context, s Stream, buf uintptr, n int, t Type, to int) error {
	return d.one(ctx, s, Collective{
		Kind: KindMessage,
		Type: t,
		Src:  DeviceBuffer(buf, n),
		To:   to,
		From: -1,
	})
}

// Recv enqueues [Recv] of n elements.
func (d *Device) Recv(ctx context.Context, s Stream, buf uintptr, n int, t Type, from int) error {
	return d.one(ctx, s, Collective{
		Kind: KindMessage,
		Type: t,
		Dst:  DeviceBuffer(buf, n),
		To:   -1,
		From: from,
	})
}
