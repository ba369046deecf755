package bench

import (
	"context"
	"time"

	"github.com/gorun/gorun/ring"
)

const (
	minIterations = 10
	maxIterations = 1 << 20
	minSample     = 20 * time.Microsecond // minimum time of a sample, which has several short calls
	minStreamed   = time.Millisecond      // minimum time of a sample on a stream, so that the stream does not run empty
	warmUps       = 3
	warmShare     = 20 // divisor of the budget for the warm-up
	turns         = 5  // alternations between calls and wire
)

// trial is one row's work on one rank.
type trial struct {
	c      *ring.Comm
	row    Row
	factor float64 // busbw divided by algbw
	width  int     // bytes of an element
	call   ring.Collective
	out    []byte    // result buffer
	on     *gpu      // holder of copies of the memory, or nil
	wire   *wire     // connection timed between the calls, or nil
	begin  []segment // memory before the call
	want   []segment // expected memory after the call
}

func (t *trial) run(ctx context.Context, opts Options) (Row, error) {
	if err := t.check(ctx); err != nil {
		return t.row, err
	}
	iterations, batch, err := t.calibrate(ctx, opts)
	if err != nil {
		return t.row, err
	}
	samples := make([]float64, 0, iterations/batch)
	wires := []float64(nil)
	for turn := range turns {
		for len(samples) < iterations/batch*(turn+1)/turns {
			begun := time.Now()
			if err := t.do(ctx, batch); err != nil {
				return t.row, err
			}
			samples = append(samples, micros(begun, batch))
		}
		if t.wire == nil {
			continue
		}
		if wires, err = t.wire.time(wires, t.row.Bytes, opts.Budget/turns); err != nil {
			return t.row, err
		}
		if err := ring.Barrier(ctx, t.c); err != nil {
			return t.row, err
		}
	}
	t.row.Iterations = len(samples) * batch
	if err := t.summarize(ctx, samples, wires); err != nil {
		return t.row, err
	}
	// Once more: after many calls a communicator may work differently.
	return t.row, t.check(ctx)
}

// micros returns the µs of each of calls since begun.
func micros(begun time.Time, calls int) float64 {
	return time.Since(begun).Seconds() * 1e6 / float64(calls)
}

// summarize sets the times of the row, the same on all ranks. Wires is empty on ranks that are no
// end of the wire.
func (t *trial) summarize(ctx context.Context, samples, wires []float64) error {
	average := []float64{0}
	for _, s := range samples {
		average[0] += s / float64(len(samples))
	}
	if err := ring.AllReduce(ctx, t.c, average, ring.Avg); err != nil {
		return err
	}
	slowest := append(percentiles(samples), 0)
	if len(wires) > 0 {
		slowest[3] = percentiles(wires)[0]
	}
	if err := ring.AllReduce(ctx, t.c, slowest, ring.Max); err != nil {
		return err
	}
	r := &t.row
	r.Time = average[0]
	r.Median = slowest[0]
	r.P99 = slowest[1]
	r.Max = slowest[2]
	r.WireTime = slowest[3]
	r.bandwidths(t.factor)
	return nil
}

// do makes a number of calls, and returns when they are over.
func (t *trial) do(ctx context.Context, calls int) error {
	for range calls {
		var err error
		if t.on != nil {
			err = t.on.launch(ctx, t.call)
		} else {
			err = t.c.Do(ctx, t.call)
		}
		if err != nil {
			return err
		}
	}
	if t.on == nil {
		return nil
	}
	return t.on.device.Sync(ctx, t.on.stream)
}

// check makes one call on known values and adds the wrong results of all ranks.
func (t *trial) check(ctx context.Context) error {
	for i := range t.out {
		t.out[i] = unwritten
	}
	for _, s := range t.begin {
		s.fill(t.width)
	}
	if err := t.on.bring(ctx); err != nil {
		return err
	}
	if err := t.do(ctx, 1); err != nil {
		return err
	}
	if err := t.on.fetch(ctx); err != nil {
		return err
	}
	wrong := []int64{0}
	for _, s := range t.want {
		wrong[0] += int64(s.wrong(t.width))
	}
	err := ring.AllReduce(ctx, t.c, wrong, ring.Sum)
	t.row.Wrong += int(wrong[0])
	return err
}

// calibrate decides, the same on all ranks, how many calls fit the budget and how
// many of them make one sample.
func (t *trial) calibrate(ctx context.Context, opts Options) (iterations, batch int, err error) {
	took := []float64{0}
	calls := warmUps
	for { // until it is long enough to tell: the first calls are slow
		begun := time.Now()
		if err := t.do(ctx, calls); err != nil {
			return 0, 0, err
		}
		took[0] = time.Since(begun).Seconds()
		if err := ring.AllReduce(ctx, t.c, took, ring.Max); err != nil {
			return 0, 0, err
		}
		if took[0] >= opts.Budget.Seconds()/warmShare || calls > maxIterations/warmShare {
			break
		}
		calls *= 4
	}
	sample := minSample
	if t.on != nil {
		sample = minStreamed
	}
	iterations, batch = plan(opts, took[0]/float64(calls), sample)
	return iterations, batch, nil
}

// plan returns how many calls fit the budget, and how many of them make one sample. A call takes
// each seconds; a sample lasts at least so long.
func plan(opts Options, each float64, sample time.Duration) (iterations, batch int) {
	each = max(each, 1e-7)
	iterations = min(max(int(opts.Budget.Seconds()/each), minIterations), maxIterations)
	if batch = opts.Batch; batch > 0 {
		return max(iterations/batch, minIterations) * batch, batch
	}
	batch = min(max(int(sample.Seconds()/each), 1), iterations/minIterations)
	return iterations / batch * batch, batch
}
