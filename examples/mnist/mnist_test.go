package main

import (
	"context"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// final is the last line of a rank.
type final struct {
	bits     string
	loss     float64
	accuracy float64
}

var finalLine = regexp.MustCompile(`(?m)^rank (\d+) of (\d+) on \S+: final loss (\S+) \(bits ([0-9a-f]{16})\), accuracy (\S+) %$`)

// trainOn runs the program on size ranks and returns what rank 0 printed, and the
// last line that all ranks must have in common.
func trainOn(t *testing.T, size int, args ...string) (string, final) {
	t.Helper()
	door := ringtest.NewJob(t, size)
	outputs := make([]strings.Builder, size)
	ringtest.All(t, size, func(rank int) error {
		// Without a measurement the order of sums is the same in every run.
		lookup := ringtest.Lookup(append(door.Environ(rank), "RING_NETWORK=20us,10Gb/s"))
		return run(context.Background(), args, &outputs[rank], ring.WithEnviron(lookup))
	})
	var all []final
	for rank := range outputs {
		m := finalLine.FindStringSubmatch(outputs[rank].String())
		if m == nil || m[1] != strconv.Itoa(rank) || m[2] != strconv.Itoa(size) {
			t.Fatalf("rank %d printed %q", rank, outputs[rank].String())
		}
		loss, lerr := strconv.ParseFloat(m[3], 64)
		accuracy, aerr := strconv.ParseFloat(m[5], 64)
		if lerr != nil || aerr != nil || m[4] != fmt.Sprintf("%016x", math.Float64bits(loss)) {
			t.Fatalf("rank %d printed %q", rank, m[0])
		}
		all = append(all, final{m[4], loss, accuracy})
		check.That(t, all[rank] == all[0], "rank %d ends with %+v, rank 0 with %+v", rank, all[rank], all[0])
	}
	return outputs[0].String(), all[0]
}

func TestFourRanksLearn(t *testing.T) {
	must.HaveTime(t)
	out, last := trainOn(t, 4)
	check.That(t, last.accuracy >= 96, "accuracy is %v %%", last.accuracy)
	lines := strings.Count(out, "\nepoch ")
	check.That(t, lines == 30, "rank 0 printed %d epochs, want 30:\n%s", lines, out)
}

func TestSeedDecidesAll(t *testing.T) {
	must.HaveTime(t)
	_, first := trainOn(t, 4, "--epochs", "3")
	_, second := trainOn(t, 4, "--epochs", "3")
	check.That(t, second == first, "with the same seed: %+v, then %+v", first, second)
	_, other := trainOn(t, 4, "--epochs", "3", "--seed", "2")
	check.That(t, other != first, "the seed changes nothing")
}

func TestRanksShareTheWorkOfOne(t *testing.T) {
	must.HaveTime(t)
	for _, batch := range []string{"64", "50"} { // shares that are equal, and that are not
		_, one := trainOn(t, 1, "--global-batch", batch, "--epochs", "6")
		_, four := trainOn(t, 4, "--global-batch", batch, "--epochs", "6")
		diff := math.Abs(one.loss - four.loss)
		check.That(t, diff <= 1e-4,
			"batch %s: final loss %v on one rank, %v on four: they differ by %v", batch, one.loss, four.loss, diff)
	}
}

// A plain run, without gorun.
func TestAlone(t *testing.T) {
	var out strings.Builder
	err := run(context.Background(), []string{"--epochs", "1"}, &out, ring.WithEnviron(ringtest.Lookup(nil)))
	check.That(t, err == nil && finalLine.MatchString(out.String()), "printed %q, %v", out.String(), err)
}

// The gradient is the slope of the loss: checked by small steps.
func TestGradient(t *testing.T) {
	set := &dataset{
		rows:   5,
		cols:   6,
		pixels: make([]byte, 30),
		labels: []byte{3},
	}
	for i := range set.pixels {
		set.pixels[i] = byte(37 * i)
	}
	net := newNetwork(5, 6, 3, 7)
	for i := range net.params {
		net.params[i] = float32(math.Sin(float64(i*i))) / 2
	}
	set.image(0, net.filters.in)
	net.predict(3)
	net.learn(3, 1)
	const step = 1e-2
	checked := 0
	for i, grad := range net.grads {
		loss := func(by float32) float64 {
			old := net.params[i]
			defer func() { net.params[i] = old }()
			net.params[i] += by
			l, _ := net.predict(3)
			return l
		}
		slope := (loss(step) - loss(-step)) / (2 * step)
		if math.Abs(slope) > 1e-3 {
			checked++
		}
		check.That(t, math.Abs(slope-float64(grad)) <= 5e-3+0.05*math.Abs(slope),
			"parameter %d: gradient %v, slope %v", i, grad, slope)
	}
	check.That(t, checked >= len(net.grads)/4, "only %d of %d parameters count", checked, len(net.grads))
}

func TestRate(t *testing.T) {
	cfg := config{
		lr:     0.1,
		batch:  32,
		warmup: 2,
		epochs: 10,
	}
	r := &trainer{cfg: cfg, global: 128}
	for time, want := range map[float64]float32{0: 0.1, 1: 0.25, 2: 0.4, 6: 0.2, 10: 0} {
		got := r.rate(time)
		check.That(t, math.Abs(float64(got-want)) <= 1e-6, "rate at epoch %v is %v, want %v", time, got, want)
	}
}

func TestShardsCoverAll(t *testing.T) {
	for n := range 40 {
		for size := 1; size < 10; size++ {
			end := 0
			for rank := range size {
				lo, hi := shard(n, size, rank)
				must.That(t, lo == end && hi-lo >= n/size && hi-lo <= (n+size-1)/size,
					"rank %d of %d has [%d, %d) of %d", rank, size, lo, hi, n)
				end = hi
			}
			must.That(t, end == n, "%d ranks have %d of %d", size, end, n)
		}
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"--batch", "0"}, {"--epochs", "-1"}, {"extra"}, {"--data", "/nowhere"}} {
		check.Error(run(context.Background(), args, &strings.Builder{})).Any(t, args, "no error")
	}
}
