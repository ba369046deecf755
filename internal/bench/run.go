package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/ring"
)

// Options say what to time.
type Options struct {
	Collective string
	Min, Max   int           // bytes of the whole vector, doubling from Min
	Budget     time.Duration // for each row
}

// Collectives are the names that Options may have.
func Collectives() []string { return []string{"allreduce", "allgather", "broadcast"} }

// Row is one line of a benchmark: one size, in place or not.
type Row struct {
	Collective string
	Ranks      int
	Bytes      int
	Count      int // elements of the whole vector
	Type       string
	Op         string // of an allreduce
	InPlace    bool
	Median     float64 // µs of one call; the slowest rank's
	P99        float64 // µs, likewise
	AlgBW      float64 // GB/s
	BusBW      float64 // GB/s
	Wrong      int     // wrong elements, over all ranks
	Iterations int
}

const (
	minIterations = 8
	maxIterations = 50_000
	minSample     = 20 * time.Microsecond // short calls are timed several at a time
	warmUps       = 3
)

// Run times opts.Collective on all ranks of c, which must have equal options, and
// gives the rows to emit on every rank.
func Run(ctx context.Context, c *ring.Comm, opts Options, emit func(Row)) error {
	if !slices.Contains(Collectives(), opts.Collective) {
		return fmt.Errorf("there is no benchmark of %q", opts.Collective)
	}
	for bytes := opts.Min; bytes <= opts.Max; bytes *= 2 {
		for _, inPlace := range []bool{false, true} {
			t := newTrial(c, opts.Collective, bytes, inPlace)
			if t == nil {
				continue
			}
			row, err := t.run(ctx, opts.Budget)
			if err != nil {
				return fmt.Errorf("%s of %d bytes: %w", opts.Collective, bytes, err)
			}
			emit(row)
		}
	}
	return nil
}

// trial is one row's work on one rank.
type trial struct {
	c    *ring.Comm
	row  Row
	call func(context.Context) error
	fill func()
	want func(i int) float32
	out  []float32
}

// newTrial prepares the buffers. It returns nil for a form that does not exist.
func newTrial(c *ring.Comm, collective string, bytes int, inPlace bool) *trial {
	n, count := c.Size(), bytes/4
	t := &trial{c: c, row: Row{Collective: collective, Ranks: n, Type: "float", InPlace: inPlace}}
	mine := func(i, rank int) float32 { return float32((i%7 + 1) * (rank + 1)) }
	switch collective {
	case "allreduce":
		src, dst := make([]float32, count), make([]float32, count)
		if inPlace {
			dst = src
		}
		t.row.Op, t.out = "sum", dst
		t.fill = func() { fill(src, func(i int) float32 { return mine(i, c.Rank()) }) }
		t.want = func(i int) float32 { return float32((i%7 + 1) * n * (n + 1) / 2) }
		t.call = func(ctx context.Context) error { return ring.AllReduceInto(ctx, c, dst, src, ring.Sum) }
	case "allgather":
		part := count / n
		count = part * n
		dst := make([]float32, count)
		src := make([]float32, part)
		if inPlace {
			src = dst[c.Rank()*part : (c.Rank()+1)*part]
		}
		t.out = dst
		t.fill = func() { fill(src, func(i int) float32 { return mine(i, c.Rank()) }) }
		t.want = func(i int) float32 { return mine(i%part, i/part) }
		t.call = func(ctx context.Context) error { return ring.AllGather(ctx, c, dst, src) }
	case "broadcast":
		if !inPlace {
			return nil
		}
		buf := make([]float32, count)
		t.out = buf
		t.fill = func() { fill(buf, func(i int) float32 { return mine(i, c.Rank()) }) }
		t.want = func(i int) float32 { return mine(i, 0) }
		t.call = func(ctx context.Context) error { return ring.Broadcast(ctx, c, buf, 0) }
	}
	t.row.Count, t.row.Bytes = count, count*4
	return t
}

func fill(buf []float32, value func(i int) float32) {
	for i := range buf {
		buf[i] = value(i)
	}
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
		for range batch {
			if err := t.call(ctx); err != nil {
				return t.row, err
			}
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
	t.row.BusBW = t.row.AlgBW * busFactor(t.row.Collective, t.row.Ranks)
	return t.row, nil
}

// check makes one call on known values and counts the wrong results of all ranks.
func (t *trial) check(ctx context.Context) error {
	t.fill()
	if err := t.call(ctx); err != nil {
		return err
	}
	wrong := []int64{0}
	for i, v := range t.out {
		if v != t.want(i) {
			wrong[0]++
		}
	}
	err := ring.AllReduce(ctx, t.c, wrong, ring.Sum)
	t.row.Wrong = int(wrong[0])
	return err
}

// calibrate decides, the same on all ranks, how many calls fit the budget and how
// many of them make one sample.
func (t *trial) calibrate(ctx context.Context, budget time.Duration) (iterations, batch int, err error) {
	begun := time.Now()
	for range warmUps {
		if err := t.call(ctx); err != nil {
			return 0, 0, err
		}
	}
	took := []float64{time.Since(begun).Seconds() / warmUps}
	if err := ring.AllReduce(ctx, t.c, took, ring.Max); err != nil {
		return 0, 0, err
	}
	each := max(took[0], 1e-7)
	iterations = min(max(int(budget.Seconds()/each), minIterations), maxIterations)
	batch = min(max(int(minSample.Seconds()/each), 1), iterations/minIterations)
	return iterations / batch * batch, batch, nil
}

// busFactor is what every link carries for each byte of the vector, as nccl-tests
// defines it.
func busFactor(collective string, n int) float64 {
	switch collective {
	case "allreduce":
		return 2 * float64(n-1) / float64(n)
	case "allgather":
		return float64(n-1) / float64(n)
	}
	return 1
}
