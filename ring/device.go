package ring

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/sight/recorder"
	"github.com/gorun/gorun/ring/internal/nccl"
	"github.com/gorun/gorun/ring/internal/stall"
)

// ErrNoGPU is returned by [NewDevice] when a rank of the job has no usable GPU.
var ErrNoGPU = errors.New("ring: device: no GPU can be used")

// Stream is a CUDA stream: a CUstream or cudaStream_t, which are the same. Zero is the default
// stream.
type Stream uintptr

// Device runs collectives on buffers in GPU memory, among the ranks of a [Comm]. A call enqueues
// its work on a stream and returns; the work is done when the stream reaches it. All ranks make the
// same calls in the same order, each on its own GPU. Differences between ranks are not detected.
//
// NCCL moves the data. Where a rank cannot load NCCL, and for operations that NCCL lacks
// (reductions of int16 and of the bits of integers), the data goes through host memory: then a call
// waits until the stream reaches it and the ranks have exchanged the data, and only the copy back
// stays asynchronous.
//
// When a rank dies, pending work on the others is aborted: their streams continue with undefined
// results, and [Device.Err], [Device.Wait] and all later calls return the [*PeerError] that names
// the rank. A call that waits longer than RING_STALL is reported as one on a Comm is. The methods
// are safe for concurrent use.
type Device struct {
	comm *Comm // the device's own, of the same ranks
	set  deviceSettings
	use  sync.RWMutex // write-locked to release gpu; readers hold it only where no other lock keeps Close out
	gpu  *nccl.GPU
	lib  *nccl.Library // nil if all data goes through host memory
	how  string

	event nccl.Event    // after the last launch
	wake  chan struct{} // has an element after a launch
	ended chan struct{} // closed when the watch has ended

	order  sync.Mutex // held by the call that is being launched; guards the fields below
	steps  []nccl.Step
	single [1]DeviceCall
	stage  stage
	closed bool
	about  launched // the call that is being launched

	mu   sync.Mutex // held in every call on link; guards the fields below
	link *nccl.Comm // nil before it opens and after it closes
	busy bool       // launched work may be pending
	held bool       // NCCL has not enqueued it yet, so event does not cover it
	word stall.Word // its position in the post
	copy nccl.Event // after the last copy from host memory; 0 when that is over
	lane *recorder.Lane

	underWay int // launches since all were last seen finished
}

// launched describes a launch for the record.
type launched struct {
	kind       uint8
	seq, bytes uint64
	to, from   int
	label      label
}

type deviceSettings struct {
	timeout time.Duration
}

// DeviceOption configures [NewDevice].
type DeviceOption func(*deviceSettings)

// WithDeviceTimeout fails the job when launched work has not finished, and nothing else was
// launched, for the time after. The error names a rank that has not launched the work, if there is
// one. Without this option such work waits without limit, and only a stall is reported.
func WithDeviceTimeout(after time.Duration) DeviceOption {
	return func(s *deviceSettings) { s.timeout = after }
}

// NewDevice joins GPU ordinal of this process with those of the other ranks of c. It is a
// collective on c. Ctx bounds only NewDevice. If a rank has no GPU or driver, all ranks get an
// error that wraps [ErrNoGPU] and names it, and c stays usable.
//
// RING_DEVICE=host moves all data through host memory; nccl makes that an error; auto is the
// default. RING_NCCL_LIB and RING_CUDA_LIB are paths of libnccl.so.2 and libcuda.so.1.
//
// The Device ends with c; close it before c.
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
	if d.lib != nil {
		d.lane = part.record.Lane(part.name+"/launches", part.Size())
	}
	if t := d.set.timeout; t > 0 && (part.opts.stall < 0 || part.opts.stall > t/2) {
		// Every rank must have published its position before the timeout.
		if part.opts.stall < 0 {
			part.opts.report = func(string) {}
		}
		part.opts.stall = t / 2
	}
	part.startStallSampler()
	c.work.Go(d.watch)
	return d, nil
}

// String returns what moves the data, and the reason if it is not NCCL.
func (d *Device) String() string { return d.how }

// Native reports whether NCCL moves the data where it can. All ranks get the same answer.
func (d *Device) Native() bool { return d.lib != nil }

// Err returns the error that ended the Device, or nil.
func (d *Device) Err() error {
	if d.comm.life.Err() == nil {
		return nil
	}
	return during("device", context.Cause(d.comm.life))
}

// Wait returns when all launched work has finished. If ctx ends first, Wait returns ctx's error and
// the work goes on.
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

// closeTime bounds how long Close waits for launched work.
const closeTime = 5 * time.Second

// Close ends the Device after waiting up to 5 s for launched work. Ranks that still wait for this
// one get a [*PeerError], so close after the last call. A call that is being launched fails with
// [ErrClosed]. Closing again does nothing.
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

// finish closes the link to the other ranks, or aborts it if closing takes too long.
func (d *Device) finish() error {
	by := time.Now().Add(closeTime)
	d.stage.settle(d, by)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.copy = 0
	if d.link == nil {
		return nil
	}
	link := d.link
	r := nccl.InProgress
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
	d.lane.Close()
	errs = append(errs, d.comm.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ring: device: close: %w", err)
	}
	return nil
}

// pause waits for an event that usually comes soon: it yields first, and then sleeps.
type pause struct{ waits int }

func (p *pause) wait() {
	if p.waits++; p.waits < 100 {
		runtime.Gosched()
		return
	}
	time.Sleep(min(time.Duration(p.waits)*time.Microsecond, time.Millisecond))
}
