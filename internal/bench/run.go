package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/gorun/gorun/ring"
)

// Options selects the calls to time.
type Options struct {
	Collective string        // one of [Collectives]
	Types, Ops []string      // names, or "all"; empty: float, and sum where elements are combined
	Min, Max   int           // bytes of the whole vector
	Factor     int           // factor between sizes; 0 means 2
	Budget     time.Duration // for each row
	Device     string        // where the memory is: empty or "cpu", or "cuda"
}

// Row is one line of a benchmark: one size, in place or not. gorun bench --json prints it.
type Row struct {
	Collective string  `json:"collective"`
	Ranks      int     `json:"ranks"`
	Bytes      int     `json:"bytes"`
	Count      int     `json:"count"` // elements of the whole vector
	Type       string  `json:"type"`
	Op         string  `json:"op"` // of what combines elements
	InPlace    bool    `json:"in_place"`
	Median     float64 `json:"median_us"`  // µs of one call; the slowest rank's
	P99        float64 `json:"p99_us"`     // µs, likewise
	AlgBW      float64 `json:"algbw_gb_s"` // GB/s
	BusBW      float64 `json:"busbw_gb_s"` // GB/s
	Wrong      int     `json:"wrong"`      // wrong elements, over all ranks
	Iterations int     `json:"iterations"`
	Device     string  `json:"device,omitempty"` // what moves memory of GPUs
}

const (
	minIterations = 8
	maxIterations = 50_000
	minSample     = 20 * time.Microsecond // short calls are timed several at a time
	minStreamed   = time.Millisecond      // those on a stream so many that it does not run empty
	warmUps       = 3
)

// Check finds options that make no sense.
func (o Options) Check() error {
	_, _, err := o.resolve()
	return err
}

// resolve converts the names of collectives, types and operations.
func (o Options) resolve() (collective, []combination, error) {
	c, known := find(o.Collective)
	switch {
	case !known:
		return c, nil, fmt.Errorf("unknown benchmark %q", o.Collective)
	case o.Min < 1 || o.Max < o.Min:
		return c, nil, fmt.Errorf("sizes from %d to %d bytes: they go from 1 byte up", o.Min, o.Max)
	case o.Device != "" && o.Device != "cpu" && o.Device != "cuda":
		return c, nil, fmt.Errorf("no memory of %q: it is that of cpu or cuda", o.Device)
	case o.Factor < 0 || o.Factor == 1:
		return c, nil, fmt.Errorf("a step by a factor of %d: it is 2 or more", o.Factor)
	case !c.combines() && len(o.Ops) > 0:
		return c, nil, fmt.Errorf("%s has no operation, it moves elements as they are", c.name)
	}
	all, err := combinations(o.Types, o.Ops, c.combines())
	return c, all, err
}

// Run times what opts say on all ranks of c, which must have equal options, and
// gives the rows to emit on every rank. A size that does not divide among the
// ranks is rounded down; one that leaves a rank nothing is left out.
func Run(ctx context.Context, c *ring.Comm, opts Options, emit func(Row)) (err error) {
	what, all, err := opts.resolve()
	if err != nil {
		return err
	}
	memory := [2][]byte{aligned(opts.Max), aligned(opts.Max)}
	var on *gpu
	if opts.Device == "cuda" {
		if on, err = newGPU(ctx, c, memory); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, on.close()) }()
	}
	rows := 0
	for _, combo := range all {
		for bytes := opts.Min; bytes <= opts.Max; bytes *= max(opts.Factor, 2) {
			for _, inPlace := range []bool{false, true} {
				t := newTrial(c, what, combo, memory, bytes, inPlace)
				if t == nil {
					continue
				}
				if t.on = on; on != nil {
					t.row.Device = on.device.String()
				}
				row, err := t.run(ctx, opts.Budget)
				if err != nil {
					return fmt.Errorf("%s of %d bytes: %w", what.name, bytes, err)
				}
				emit(row)
				rows++
			}
		}
	}
	if rows == 0 {
		return fmt.Errorf("%s of up to %d bytes leaves %d ranks nothing each: ask for larger sizes", what.name, opts.Max, c.Size())
	}
	return nil
}

// aligned is n bytes that may hold any type.
func aligned(n int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]uint64, (n+7)/8)))), n)
}

// trial is one row's work on one rank.
type trial struct {
	c      *ring.Comm
	row    Row
	factor float64 // from algbw to busbw
	width  int     // bytes of an element
	call   ring.Collective
	out    []byte    // what the call writes
	on     *gpu      // where the call's memory is a copy, or nil
	begin  []segment // memory before the call
	want   []segment // and after it
}

func (t *trial) run(ctx context.Context, budget time.Duration) (Row, error) {
	if err := t.check(ctx); err != nil {
		return t.row, err
	}
	iterations, batch, err := t.calibrate(ctx, budget)
	if err != nil {
		return t.row, err
	}
	samples := make([]float64, 0, iterations/batch)
	for range iterations / batch {
		begun := time.Now()
		if err := t.do(ctx, batch); err != nil {
			return t.row, err
		}
		samples = append(samples, time.Since(begun).Seconds()*1e6/float64(batch))
	}
	slices.Sort(samples)
	times := []float64{samples[len(samples)/2], samples[len(samples)*99/100]}
	if err := ring.AllReduce(ctx, t.c, times, ring.Max); err != nil {
		return t.row, err
	}
	t.row.Median, t.row.P99, t.row.Iterations = times[0], times[1], iterations
	t.row.AlgBW = float64(t.row.Bytes) / times[0] / 1e3
	t.row.BusBW = t.row.AlgBW * t.factor
	// Once more: after many calls a communicator may work differently.
	return t.row, t.check(ctx)
}

// do makes so many calls, and returns when they are over.
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
func (t *trial) calibrate(ctx context.Context, budget time.Duration) (iterations, batch int, err error) {
	begun := time.Now()
	if err := t.do(ctx, warmUps); err != nil {
		return 0, 0, err
	}
	took := []float64{time.Since(begun).Seconds() / warmUps}
	if err := ring.AllReduce(ctx, t.c, took, ring.Max); err != nil {
		return 0, 0, err
	}
	each := max(took[0], 1e-7)
	iterations = min(max(int(budget.Seconds()/each), minIterations), maxIterations)
	sample := minSample
	if t.on != nil {
		sample = minStreamed
	}
	batch = min(max(int(sample.Seconds()/each), 1), iterations/minIterations)
	return iterations / batch * batch, batch, nil
}
