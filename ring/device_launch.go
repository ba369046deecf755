package ring

import (
	"context"
	"fmt"
	"time"

	"github.com/gorun/gorun/ring/internal/engine"
	"github.com/gorun/gorun/ring/internal/nccl"
	"github.com/gorun/gorun/ring/internal/stall"
)

// DeviceCall is a collective on buffers in GPU memory, for [Device.Do].
type DeviceCall struct {
	Collective // any kind but a barrier

	// Scale, if not zero, multiplies each element before the reduction. It needs Sum or Avg of
	// floating point numbers.
	Scale float64
}

// Do enqueues calls on s. NCCL runs several of them together, which is faster than one after the
// other; they must not depend on each other. If an argument is invalid nothing is enqueued. Ctx
// bounds only Do; if it ends first, the job fails.
func (d *Device) Do(ctx context.Context, s Stream, calls ...DeviceCall) error {
	d.order.Lock()
	defer d.order.Unlock()
	return d.do(ctx, s, calls)
}

func (d *Device) do(ctx context.Context, s Stream, calls []DeviceCall) error {
	if d.closed {
		return ErrClosed
	}
	for i := range calls {
		if err := d.check(&calls[i]); err != nil {
			return err
		}
	}
	d.steps = d.steps[:0]
	first := 0 // first call that steps cover
	for i := range calls {
		steps, ok := d.translate(d.steps, &calls[i])
		if ok {
			d.steps = steps
			continue
		}
		if err := d.launch(ctx, s, calls[first:i]); err != nil {
			return err
		}
		if err := d.throughHost(ctx, s, &calls[i]); err != nil {
			return err
		}
		first = i + 1
	}
	return d.launch(ctx, s, calls[first:])
}

func (d *Device) check(call *DeviceCall) error {
	if call.Kind == KindBarrier {
		return fmt.Errorf("ring: device: a barrier has no data; make it on the Comm")
	}
	for _, b := range []Buffer{call.Dst, call.Src} {
		if b.Len < 0 || b.Len > 0 && b.Ptr == nil {
			return fmt.Errorf("ring: %v: a buffer of %d elements at %p", call.Kind, b.Len, b.Ptr)
		}
	}
	if err := d.comm.check(&call.Collective, new(Call)); err != nil {
		return err
	}
	if call.scaled() && (!call.Kind.Reduces() || call.Op != Sum && call.Op != Avg || !call.Type.Float()) {
		return fmt.Errorf("ring: %v: a scale is for sum and avg of floating point numbers, not for %v of %v", call.Kind,
			call.Op, call.Type)
	}
	return nil
}

func (w *DeviceCall) scaled() bool { return w.Scale != 0 && w.Scale != 1 }

// launch enqueues the steps of calls as one group.
func (d *Device) launch(ctx context.Context, s Stream, calls []DeviceCall) error {
	if len(calls) == 0 {
		return nil
	}
	op := calls[0].Kind
	if err := d.until(ctx, d.room); err != nil {
		return d.fail(op, err)
	}
	if err := d.begin(&calls[0]); err != nil {
		return err
	}
	if len(d.steps) == 0 {
		return nil // all are empty
	}
	r, err := d.enqueue(s)
	if err == nil {
		select {
		case d.wake <- struct{}{}: // before it has settled, which may wait for other ranks
		default:
		}
	}
	if err == nil && r == nccl.InProgress {
		err = d.until(ctx, func() (bool, error) { return d.settled(s) })
	}
	d.steps = d.steps[:0]
	if err != nil {
		return d.fail(op, err)
	}
	return nil
}

// begin counts a launch, as a Comm counts its calls.
func (d *Device) begin(w *DeviceCall) error {
	c := d.comm
	c.calls.Lock()
	defer c.calls.Unlock()
	if err := c.over(w.Kind); err != nil {
		return err
	}
	if w.Kind != KindMessage {
		c.calls.seq++
	}
	c.post.Enter(&Call{Kind: w.Kind, Seq: c.calls.seq}, w.To, w.From)
	d.about = launched{
		kind:  uint8(w.Kind),
		seq:   c.calls.seq,
		bytes: uint64(max(w.Dst.Len, w.Src.Len) * w.Type.Size()),
		to:    w.To,
		from:  w.From,
		label: c.calls.label,
	}
	if len(d.steps) == 0 {
		c.post.Leave()
	}
	return nil
}

func (d *Device) enqueue(s Stream) (nccl.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link == nil {
		return 0, d.Err()
	}
	a := &d.about
	d.lane.Enter(a.kind, a.seq, a.bytes, a.to, a.from, a.label.name, a.label.more)
	r, err := d.link.Launch(d.steps, nccl.Stream(s), d.event)
	d.underWay++
	d.busy = true
	d.held = r == nccl.InProgress
	d.word = d.comm.post.Word()
	return r, err
}

// until waits for an event that may need the other ranks. If ctx ends first the job ends, because
// the other ranks cannot go on.
func (d *Device) until(ctx context.Context, over func() (bool, error)) error {
	var p pause
	for {
		done, err := over()
		if done || err != nil {
			return err
		}
		if ctx.Err() != nil {
			d.comm.end(fmt.Errorf("ring: device: %w", ctx.Err()))
			return ctx.Err()
		}
		p.wait()
	}
}

// mostUnderWay bounds pending launches. The driver and NCCL have room for some more; beyond that a
// launch blocks inside them with the link held, and could not be aborted if a rank is lost.
const mostUnderWay = 256

// room reports whether another launch may start. Once the bound is reached, all pending launches
// must finish first.
func (d *Device) room() (bool, error) {
	d.mu.Lock()
	few := d.underWay < mostUnderWay
	d.mu.Unlock()
	if few {
		return true, nil
	}
	busy, err := d.look()
	return !busy, err
}

// settled reports whether NCCL has enqueued the last launch.
func (d *Device) settled(s Stream) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link == nil {
		return false, d.Err()
	}
	switch r := d.link.State(); r {
	case nccl.InProgress:
		return false, nil
	case nccl.Success:
		d.held = false
		return true, d.gpu.Record(d.event, nccl.Stream(s))
	default:
		return false, d.link.Fault("launch", r)
	}
}

// poll reports whether launched work is pending, and whether it has failed.
func (d *Device) poll() (busy bool, err error) {
	busy, err = d.look()
	if err != nil {
		return true, d.fail(Kind(d.comm.post.Word().Kind()), err)
	}
	return busy, nil
}

func (d *Device) look() (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.copy != 0 {
		done, err := d.gpu.EventDone(d.copy)
		if !done {
			return true, err
		}
		d.copy = 0
	}
	if d.link == nil || !d.busy {
		return false, nil
	}
	if d.held {
		return true, nil // the launching goroutine polls it
	}
	if r := d.link.State(); r != nccl.Success && r != nccl.InProgress {
		return true, d.link.Fault("while it ran", r)
	}
	done, err := d.gpu.EventDone(d.event)
	if done {
		d.busy = false
		d.underWay = 0
		d.comm.post.LeaveIf(d.word)
		d.lane.Leave(false)
	}
	return !done, err
}

// pollTime is the period at which the watch polls launched work.
const pollTime = 10 * time.Millisecond

// watch aborts NCCL's communicator as soon as it or the job has failed: nothing else ends work that
// waits for lost ranks.
func (d *Device) watch() {
	defer close(d.ended)
	defer d.abort()
	timer := time.NewTimer(pollTime)
	defer timer.Stop()
	for {
		select {
		case <-d.comm.life.Done():
			return
		case <-d.wake:
		}
		word := d.comm.post.Word()
		since := time.Now()
		for busy := true; busy; {
			timer.Reset(pollTime)
			select {
			case <-d.comm.life.Done():
				return
			case <-timer.C:
			}
			var err error
			if busy, err = d.poll(); err != nil {
				return
			}
			if now := d.comm.post.Word(); now != word {
				word = now
				since = time.Now()
			}
			if busy && d.set.timeout > 0 && time.Since(since) > d.set.timeout {
				_ = d.fail(Kind(d.comm.post.Word().Kind()), d.late(word)) // later calls return it too
				return
			}
		}
	}
}

// late returns the error of launched work that exceeds the timeout.
func (d *Device) late(word stall.Word) error {
	c := d.comm
	mine := word.Position()
	for rank := range c.Size() {
		if rank == c.Rank() {
			continue
		}
		theirs, err := c.position(c.positionKey(rank))
		if err != nil || theirs.Reached(mine) {
			continue
		}
		seen := ""
		if theirs.Order > 0 {
			seen = fmt.Sprintf("; it was seen in call %d", theirs.Call())
		}
		return &engine.LinkError{Rank: rank, Err: fmt.Errorf("it has not launched call %d in %v%s", mine.Call(),
			d.set.timeout, seen)}
	}
	return fmt.Errorf("call %d has not come to its end in %v, and all ranks have launched it", mine.Call(),
		d.set.timeout)
}

// fail ends the Device and the job: the other ranks cannot finish the failed work, and NCCL does
// not notify them. If a lost rank is the cause, the job reports that rank instead.
func (d *Device) fail(op Kind, err error) error {
	c := d.comm
	seen := &PeerError{Rank: c.inJob(c.Rank()), Host: c.self.Host, Cause: err}
	lost, late := err.(*engine.LinkError)
	if late {
		seen = &PeerError{Rank: c.inJob(lost.Rank), Host: c.host(lost.Rank), Cause: lost.Err}
		c.report(seen.Rank, lost.Err)
	}
	if c.verdict(seen) == error(seen) {
		if !late {
			c.report(seen.Rank, err)
		}
		c.end(seen)
	}
	d.abort()
	c.calls.Lock()
	defer c.calls.Unlock()
	if broke := c.failure(); broke != nil {
		return broke
	}
	return c.fail(context.Background(), op.String(), err)
}

// abort ends the link, and with it all launched work.
func (d *Device) abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link != nil {
		_ = d.link.Abort() // the link has failed already
		d.link = nil
	}
}
