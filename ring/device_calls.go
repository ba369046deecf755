package ring

import (
	"context"
	"unsafe"
)

// DeviceBuffer returns GPU memory for n elements at the device address at, for a [DeviceCall].
func DeviceBuffer(at uintptr, n int) Buffer {
	return Buffer{Ptr: *(*unsafe.Pointer)(unsafe.Pointer(&at)), Len: n} // not Go memory, so not a Go pointer
}

// one enqueues w on elements of type t at dst and src.
func (d *Device) one(ctx context.Context, s Stream, t Type, dst, src Buffer, w Collective) error {
	w.Type = t
	w.Dst = dst
	w.Src = src
	d.order.Lock()
	defer d.order.Unlock()
	d.single[0] = DeviceCall{Collective: w}
	return d.do(ctx, s, d.single[:])
}

// AllReduce enqueues [AllReduceInto] of n elements from src to dst. Dst may be src.
func (d *Device) AllReduce(ctx context.Context, s Stream, dst, src uintptr, n int, t Type, op Op) error {
	return d.one(ctx, s, t, DeviceBuffer(dst, n), DeviceBuffer(src, n), Collective{Kind: KindAllReduce, Op: op})
}

// Reduce enqueues [Reduce] of n elements. Only the root uses dst.
func (d *Device) Reduce(ctx context.Context, s Stream, dst, src uintptr, n int, t Type, op Op, root int) error {
	var result Buffer
	if d.comm.Rank() == root {
		result = DeviceBuffer(dst, n)
	}
	return d.one(ctx, s, t, result, DeviceBuffer(src, n), Collective{Kind: KindReduce, Op: op, Root: root})
}

// ReduceScatter enqueues [ReduceScatter]: n elements at dst, and n times Size at src.
func (d *Device) ReduceScatter(ctx context.Context, s Stream, dst, src uintptr, n int, t Type, op Op) error {
	return d.one(ctx, s, t, DeviceBuffer(dst, n), DeviceBuffer(src, n*d.comm.Size()),
		Collective{Kind: KindReduceScatter, Op: op})
}

// AllGather enqueues [AllGather]: n elements at src, and n times Size at dst.
func (d *Device) AllGather(ctx context.Context, s Stream, dst, src uintptr, n int, t Type) error {
	return d.one(ctx, s, t, DeviceBuffer(dst, n*d.comm.Size()), DeviceBuffer(src, n), Collective{Kind: KindAllGather})
}

// Broadcast enqueues [Broadcast] of n elements.
func (d *Device) Broadcast(ctx context.Context, s Stream, buf uintptr, n int, t Type, root int) error {
	return d.one(ctx, s, t, DeviceBuffer(buf, n), Buffer{}, Collective{Kind: KindBroadcast, Root: root})
}

// AllToAll enqueues [AllToAll] with n elements for each rank, n times Size at src and dst.
func (d *Device) AllToAll(ctx context.Context, s Stream, dst, src uintptr, n int, t Type) error {
	n *= d.comm.Size()
	return d.one(ctx, s, t, DeviceBuffer(dst, n), DeviceBuffer(src, n), Collective{Kind: KindAllToAll})
}

// Send enqueues [Send] of n elements. Two ranks that send to each other must do both messages in
// one call of [Device.Do].
func (d *Device) Send(ctx context.Context, s Stream, buf uintptr, n int, t Type, to int) error {
	return d.one(ctx, s, t, Buffer{}, DeviceBuffer(buf, n), Collective{Kind: KindMessage, To: to, From: -1})
}

// Recv enqueues [Recv] of n elements.
func (d *Device) Recv(ctx context.Context, s Stream, buf uintptr, n int, t Type, from int) error {
	return d.one(ctx, s, t, DeviceBuffer(buf, n), Buffer{}, Collective{Kind: KindMessage, To: -1, From: from})
}
