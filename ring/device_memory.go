package ring

import (
	"context"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/nccl"
)

// with calls do with the GPU, which stays open meanwhile.
func (d *Device) with(do func(g *nccl.GPU) error) error {
	d.use.RLock()
	defer d.use.RUnlock()
	if d.gpu == nil {
		return ErrClosed
	}
	return do(d.gpu)
}

// Alloc allocates bytes of GPU memory and returns its device address. Free it with [Device.Free].
func (d *Device) Alloc(bytes int) (at uintptr, err error) {
	err = d.with(func(g *nccl.GPU) (err error) {
		at, err = g.Alloc(bytes)
		return err
	})
	return at, err
}

// Free frees memory of [Device.Alloc]. No work on a stream may still use it.
func (d *Device) Free(at uintptr) error {
	return d.with(func(g *nccl.GPU) error { return g.Free(at) })
}

// NewStream makes a stream that does not synchronize with the default stream.
func (d *Device) NewStream() (s Stream, err error) {
	err = d.with(func(g *nccl.GPU) error {
		made, err := g.NewStream()
		s = Stream(made)
		return err
	})
	return s, err
}

// FreeStream destroys a stream made by [Device.NewStream].
func (d *Device) FreeStream(s Stream) error {
	return d.with(func(g *nccl.GPU) error { return g.FreeStream(nccl.Stream(s)) })
}

// Sync returns when all work on s has finished, including work that others enqueued. If the Device
// fails meanwhile, Sync returns its error.
func (d *Device) Sync(ctx context.Context, s Stream) error {
	return d.await(ctx, func() (done bool, err error) {
		err = d.with(func(g *nccl.GPU) (err error) {
			done, err = g.StreamDone(nccl.Stream(s))
			return err
		})
		if derr := d.Err(); derr != nil {
			err = derr
		}
		return done, err
	})
}

// await waits until something is done. It ends with the Device, and with ctx.
func (d *Device) await(ctx context.Context, over func() (done bool, err error)) error {
	var p pause
	for {
		done, err := over()
		switch {
		case done || err != nil:
			return err
		case d.Err() != nil:
			return d.Err()
		case ctx.Err() != nil:
			return ctx.Err()
		}
		p.wait()
	}
}

// CopyToDevice enqueues a copy of src to the device address dst. Src may be reused when it returns.
func CopyToDevice[T Elem](ctx context.Context, d *Device, s Stream, dst uintptr, src []T) error {
	return d.copyIn(ctx, s, dst, bytesOf(src))
}

// CopyFromDevice copies from the device address src to dst when s reaches the copy, and returns
// when it is done.
func CopyFromDevice[T Elem](ctx context.Context, d *Device, s Stream, dst []T, src uintptr) error {
	return d.copyOut(ctx, s, bytesOf(dst), src)
}

// staging returns host memory for n bytes of a copy, by p. The Device's order is held.
func (d *Device) staging(ctx context.Context, p *pinned, n int) (Buffer, error) {
	if d.closed {
		return Buffer{}, ErrClosed
	}
	if err := d.stage.ready(ctx, d); err != nil {
		return Buffer{}, err
	}
	return p.buffer(d.gpu, Buffer{Len: n}, Uint8)
}

func (d *Device) copyIn(ctx context.Context, s Stream, dst uintptr, src []byte) error {
	d.order.Lock()
	defer d.order.Unlock()
	b, err := d.staging(ctx, &d.stage.src, len(src))
	if err != nil || len(src) == 0 {
		return err
	}
	copy(b.Bytes(Uint8), src)
	if err := d.gpu.CopyIn(dst, b.Ptr, len(src), nccl.Stream(s), d.stage.event); err != nil {
		return err
	}
	d.copies()
	return nil
}

func (d *Device) copyOut(ctx context.Context, s Stream, dst []byte, src uintptr) error {
	d.order.Lock()
	defer d.order.Unlock()
	b, err := d.staging(ctx, &d.stage.dst, len(dst))
	if err != nil || len(dst) == 0 {
		return err
	}
	if err := d.gpu.CopyOut(b.Ptr, src, len(dst), nccl.Stream(s), d.stage.event); err != nil {
		return err
	}
	if err := d.staged(ctx); err != nil {
		return err
	}
	copy(dst, unsafe.Slice((*byte)(b.Ptr), len(dst)))
	return nil
}
