package ring

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gorun/gorun/ring/internal/nccl"
)

// ErrNoGPU is why a rank, or another one of the job, can have no [Device].
var ErrNoGPU = errors.New("ring: device: no GPU can be used")

// Stream is a CUDA stream: a CUstream or cudaStream_t, which are the same. Zero is the default stream.
type Stream uintptr

// Device moves buffers in the memory of GPUs between the ranks of a [Comm]. Its calls enqueue their work on a stream and
// return; it is done when the stream gets there. All ranks make the same calls in the same order, each on its own
// device. NCCL does the work. Where a rank cannot load it, and for what it has no call for (reductions of int16, of the
// bits of integers), the data goes through host memory: then a call waits until the stream has come to it and the
// ranks have exchanged the data, and only the copy back is left to the stream.
//
// When a rank dies, what is under way on the others is aborted: their streams go on, with undefined results, and
// [Device.Err], [Device.Wait] and all later calls return the [*PeerError] that names it. A call that waits for longer than
// RING_STALL is reported as one of a Comm is.
//
// Unlike those of a Comm, calls that differ between ranks are not found out. Its methods may be called from
// several goroutines.
type Device struct {
	comm *Comm // the device's own, of the same ranks
	set  deviceSettings
	use  sync.RWMutex // held by who gives the gpu back; others need it only where nothing else keeps Close out
	gpu  *nccl.GPU
	lib  *nccl.Library // nil where all goes through host memory
	how  string

	event nccl.Event    // after what was launched last
	wake  chan struct{} // has an element when something was launched
	ended chan struct{} // closed when the watch has ended

	order  sync.Mutex // held by the call that is launched; guards what follows
	steps  []nccl.Step
	single [1]DeviceCall
	stage  stage
	closed bool

	mu   sync.Mutex // held in every call on link; guards what follows
	link *nccl.Comm // nil when there is none, or no more
	busy bool       // what was launched may go on
	held bool       // NCCL has not enqueued it yet, so event is not after it
	word uint64     // of it, in the post
	copy nccl.Event // after the last copy from host memory; 0 when that is over

	underWay int // launches since all were seen to be over
}

type deviceSettings struct {
	timeout time.Duration
}

// DeviceOption changes how a [Device] works.
type DeviceOption func(*deviceSettings)

// WithDeviceTimeout makes the job fail when what was launched on a rank's stream has not come to its end after so long without
// another launch: with an error that names a rank that has not launched it, if there is one. Otherwise it waits for
// good, and only a stall is reported.
func WithDeviceTimeout(after time.Duration) DeviceOption {
	return func(s *deviceSettings) { s.timeout = after }
}

// NewDevice joins the GPU with that number, among those that the process may see, with those of the other ranks of c. They all
// call it, as they do with a collective on c. Ctx bounds only the call. Where a rank has no GPU or driver all get an
// error that is [ErrNoGPU] and names it; c stays as it was.
//
// RING_DEVICE=host lets all data go through host memory, nccl makes it an error when it has to, auto is the default.
// RING_NCCL_LIB and RING_CUDA_LIB are paths of libnccl.so.2 and libcuda.so.1.
//
// The Device ends with c, and is closed before it.
func NewDevice(ctx context.Context, c *Comm, ordinal int, opts ...DeviceOption) (*Device, error) {
	d := &Device{wake: make(chan struct{}, 1), ended: make(chan struct{})}
	for _, opt := range opts {
		opt(&d.set)
	}
	roll := c.arrive(ctx)
	part, err := split(ctx, c, 0, 0)
	if err != nil {
		return nil, roll.name(ctx, err)
	}
	d.comm = part
	if err := d.open(ctx, c, ordinal); err != nil {
		return nil, roll.name(ctx, errors.Join(err, d.release()))
	}
	if t := d.set.timeout; t > 0 && (part.opts.stall < 0 || part.opts.stall > t/2) {
		// So that every rank has left word of where it is when the time is up.
		if part.opts.stall < 0 {
			part.opts.report = func(string) {}
		}
		part.opts.stall = t / 2
	}
	part.postSentry()
	c.work.Go(d.watch)
	return d, nil
}

// String says what moves the data, and why it is not NCCL.
func (d *Device) String() string { return d.how }

// Native reports whether NCCL does what it can do. It is the same on all ranks.
func (d *Device) Native() bool { return d.lib != nil }

// Err returns why the Device can no longer work, or nil.
func (d *Device) Err() error {
	if d.comm.life.Err() == nil {
		return nil
	}
	return during("device", context.Cause(d.comm.life))
}

// Wait returns when all is done that was launched. When ctx ends first, Wait returns ctx's error and the work goes on.
func (d *Device) Wait(ctx context.Context) error {
	var p pause
	for {
		busy, err := d.poll()
		if err == nil {
			err = d.Err()
		}
		switch {
		case err != nil:
			return err
		case !busy:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		p.wait()
	}
}

// closeTime is how long Close waits for what was launched.
const closeTime = 5 * time.Second

// Close ends the Device. It gives what was launched some seconds to come to its end. Ranks that still wait for this
// one get a [*PeerError], so close after the last call. A call that is being launched fails with [ErrClosed]. Closing
// again does nothing.
func (d *Device) Close() error {
	if !d.order.TryLock() {
		d.comm.end(ErrClosed)
		d.order.Lock()
	}
	defer d.order.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	err := d.finish()
	d.comm.end(ErrClosed)
	<-d.ended
	return errors.Join(err, d.release())
}

// finish ends the link to the other ranks, by good means if it can.
func (d *Device) finish() error {
	by := time.Now().Add(closeTime)
	d.stage.settle(d, by)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.copy = 0
	if d.link == nil {
		return nil
	}
	link, r := d.link, nccl.InProgress
	d.link = nil
	if d.Err() == nil {
		r = link.Finalize()
	}
	for p := (pause{}); r == nccl.InProgress && d.Err() == nil && time.Now().Before(by); r = link.State() {
		p.wait()
	}
	if r != nccl.Success {
		return link.Abort()
	}
	return link.Destroy()
}

// release gives back all that the Device has.
func (d *Device) release() error {
	d.abort()
	d.use.Lock()
	defer d.use.Unlock()
	var errs []error
	if d.gpu != nil {
		errs = append(errs, d.stage.free(d.gpu))
		if d.event != 0 {
			errs = append(errs, d.gpu.FreeEvent(d.event))
		}
		errs = append(errs, d.gpu.Close())
		d.gpu = nil
	}
	if d.lib != nil {
		d.lib.Close()
	}
	errs = append(errs, d.comm.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ring: device: close: %w", err)
	}
	return nil
}

// pause is a wait for what is over soon, or not so soon.
type pause struct{ waits int }

func (p *pause) wait() {
	if p.waits++; p.waits < 100 {
		runtime.Gosched()
		return
	}
	time.Sleep(min(time.Duration(p.waits)*time.Microsecond, time.Millisecond))
}
