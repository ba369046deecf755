package ring

import (
	"context"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/nccl"
)

// hold keeps the GPU open until release is called.
func (d *Device) hold() (release func(), err error) {
	d.use.RLock()
	if d.gpu == nil {
		d.use.RUnlock()
		return nil, ErrClosed
	}
	return d.use.RUnlock, nil
}

// Alloc allocates bytes of GPU memory and returns its device address. Free it with [Device.Free].
func (d *Device) Alloc(bytes int) (uintptr, error) {
	release, err := d.hold()
	if err != nil {
		return 0, err
	}
	defer release()
	return d.gpu.Alloc(bytes)
}

// Free frees memory of [Device.Alloc]. No work on a stream may still use it.
func (d *Device) Free(at uintptr) error {
	release, err := d.hold()
	if err != nil {
		return err
	}
	defer release()
	return d.gpu.Free(at)
}

// NewStream makes a stream that does not synchronize with the default stream.
func (d *Device) NewStream() (Stream, error) {
	release, err := d.hold()
	if err != nil {
		return 0, err
	}
	defer release()
	s, err := d.gpu.NewStream()
	return Stream(s), err
}

// FreeStream destroys a stream made by [Device.NewStream].
func (d *Device) FreeStream(s Stream) error {
	release, err := d.hold()
	if err != nil {
		return err
	}
	defer release()
	return d.gpu.FreeStream(nccl.Stream(s))
}

func (d *Device) streamDone(s Stream) (bool, error) {
	release, err := d.hold()
	if err != nil {
		return false, err
	}
	defer release()
	return d.gpu.StreamDone(nccl.Stream(s))
}

// Sync returns when all work on s has finished, including work that others enqueued. If the Device
// fails meanwhile, Sync returns its error.
func (d *Device) Sync(ctx context.Context, s Stream) error {
	var p pause
	for {
		done, err := d.streamDone(s)
		if derr := d.Err(); derr != nil {
			err = derr
		}
		switch {
		case done || err != nil:
			return err
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

func (d *Device) copyIn(ctx context.Context, s Stream, dst uintptr, src []byte) error {
	d.order.Lock()
	defer d.order.Unlock()
	if d.closed {
		return ErrClosed
	}
	if err := d.stage.ready(ctx, d); err != nil || len(src) == 0 {
		return err
	}
	b, err := d.stage.src.buffer(d.gpu, BufferOf(src), Uint8)
	if err != nil {
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
	if d.closed {
		return ErrClosed
	}
	if err := d.stage.ready(ctx, d); err != nil || len(dst) == 0 {
		return err
	}
	b, err := d.stage.dst.buffer(d.gpu, BufferOf(dst), Uint8)
	if err != nil {
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
