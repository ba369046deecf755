package ring

import (
	"context"
	"errors"
	"time"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/nccl"
)

// stage is the host memory for data that NCCL does not move.
type stage struct {
	src, dst pinned
	event    nccl.Event // after the last copy
	work     Collective // call in progress
}

// pinned is host memory that the GPU can access.
type pinned struct {
	at   unsafe.Pointer
	size int
}

// buffer returns p with room for b.
func (p *pinned) buffer(g *nccl.GPU, b Buffer, t Type) (Buffer, error) {
	if need := b.Len * t.Size(); need > p.size {
		if err := p.free(g); err != nil {
			return Buffer{}, err
		}
		size := 4096
		for size < need {
			size *= 2
		}
		at, err := g.AllocHost(size)
		if err != nil {
			return Buffer{}, err
		}
		p.at = at
		p.size = size
	}
	return Buffer{Ptr: p.at, Len: b.Len}, nil
}

func (p *pinned) free(g *nccl.GPU) error {
	if p.at == nil {
		return nil
	}
	err := g.FreeHost(p.at)
	*p = pinned{}
	return err
}

func (st *stage) free(g *nccl.GPU) error {
	errs := []error{st.src.free(g), st.dst.free(g)}
	if st.event != 0 {
		errs = append(errs, g.FreeEvent(st.event))
	}
	return errors.Join(errs...)
}

// throughHost makes a call through host memory.
func (d *Device) throughHost(ctx context.Context, s Stream, w *DeviceCall) error {
	if err := d.Err(); err != nil {
		return err
	}
	out, err := d.bring(ctx, s, &w.Collective)
	if err != nil {
		return d.fail(w.Kind, err)
	}
	work := &d.stage.work
	var call Call
	if err := d.comm.check(work, &call); err != nil {
		return err
	}
	if err := d.comm.run(ctx, work, &call); err != nil {
		d.abort()
		return err
	}
	if out.Len == 0 {
		return nil
	}
	if w.scaled() {
		d.comm.opts.kernels.Scale(w.Type, work.Dst.Ptr, work.Dst.Ptr, work.Dst.Len, w.Scale)
	}
	if err := d.gpu.CopyIn(uintptr(out.Ptr), work.Dst.Ptr, out.Len*w.Type.Size(), nccl.Stream(s),
		d.stage.event); err != nil {
		return d.fail(w.Kind, err)
	}
	d.copies()
	return nil
}

// copies records a copy to the GPU for Wait.
func (d *Device) copies() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.copy = d.stage.event
}

// ready waits for the copy back of the last call.
func (st *stage) ready(ctx context.Context, d *Device) (err error) {
	if st.event == 0 {
		if st.event, err = d.gpu.NewEvent(); err != nil {
			return err
		}
	}
	return d.staged(ctx)
}

// bring copies the input of a call to host memory when s reaches it. It returns the buffer to copy
// back to.
func (d *Device) bring(ctx context.Context, s Stream, w *Collective) (out Buffer, err error) {
	st := &d.stage
	if err := st.ready(ctx, d); err != nil {
		return out, err
	}
	in, out := ends(w, d.comm.Rank())
	st.work = *w
	if st.work.Src, err = st.src.buffer(d.gpu, in, w.Type); err != nil {
		return out, err
	}
	if st.work.Dst, err = st.dst.buffer(d.gpu, out, w.Type); err != nil {
		return out, err
	}
	if w.Kind == KindBroadcast { // it has one buffer
		if in.Len > 0 {
			st.work.Dst = st.work.Src
		}
		st.work.Src = Buffer{}
	}
	if in.Len == 0 {
		return out, nil
	}
	if err := d.gpu.CopyOut(st.src.at, uintptr(in.Ptr), in.Len*w.Type.Size(), nccl.Stream(s), st.event); err != nil {
		return out, err
	}
	return out, d.staged(ctx)
}

// ends returns the input and output of a call on a rank.
func ends(w *Collective, rank int) (in, out Buffer) {
	in = w.Src
	out = w.Dst
	switch w.Kind {
	case KindBroadcast:
		if rank == w.Root {
			return w.Dst, Buffer{}
		}
		return Buffer{}, w.Dst
	case KindReduce, KindGather:
		if rank != w.Root {
			out = Buffer{}
		}
	case KindScatter:
		if rank != w.Root {
			in = Buffer{}
		}
	case KindMessage:
		if w.To < 0 {
			in = Buffer{}
		}
		if w.From < 0 {
			out = Buffer{}
		}
	}
	return in, out
}

// staged waits for the last copy.
func (d *Device) staged(ctx context.Context) error {
	return d.await(ctx, func() (bool, error) { return d.gpu.EventDone(d.stage.event) })
}

// settle waits for the last copy, at most until by, before the memory is freed.
func (st *stage) settle(d *Device, by time.Time) {
	if st.event == 0 {
		return
	}
	var p pause
	for {
		done, err := d.gpu.EventDone(st.event)
		if done || err != nil || time.Now().After(by) {
			return
		}
		p.wait()
	}
}
