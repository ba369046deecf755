package algorithms_test

import (
	"runtime/debug"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
)

// Networks of the tests, in picoseconds.
func lan() algorithms.Cost {
	return algorithms.Cost{
		Alpha:    20e6,
		Overhead: 4e6,
		Beta:     800,
		Slow:     800,
		Gamma:    100,
	}
} // 10 Gb/s
func fast() algorithms.Cost {
	return algorithms.Cost{
		Alpha:    10e6,
		Overhead: 2e6,
		Beta:     80,
		Slow:     80,
		Gamma:    100,
	}
} // 100 Gb/s
func far() algorithms.Cost {
	return algorithms.Cost{
		Alpha:    5e9,
		Overhead: 10e6,
		Beta:     40_000,
		Slow:     40_000,
		Gamma:    100,
	}
} // 200 Mb/s

func crowded() algorithms.Cost { // ranks that share processors
	return algorithms.Cost{
		Alpha:    100e6,
		Overhead: 100e6,
		Beta:     2000,
		Slow:     2000,
		Gamma:    50,
	}
}

// scaled returns a cost and a number of bytes that together behave as the given ones do, but
// are few enough to simulate.
func scaled(c algorithms.Cost, members, bytes int) (algorithms.Cost, int) {
	few := 64 * members
	if members > 64 {
		few = 16 * members
	}
	if bytes <= few {
		return c, bytes
	}
	c.Beta = int64(float64(c.Beta) * float64(bytes) / float64(few))
	c.Gamma = int64(float64(c.Gamma) * float64(bytes) / float64(few))
	return c, few
}

// root is that of all simulated collectives that have one.
const root = 1

// timeOf returns how long a collective takes by an algorithm, unless that is longer than limit.
func (w *world) timeOf(net network, model algorithms.Cost, kind collective.Kind, only algorithms.Algorithm, length int,
	limit int64) (ps int64, ok bool, err error) {
	net.timed = true
	size := len(w.teams)
	// All ranks have the same memory: nothing is kept in it.
	all := make([]byte, length/4*4)
	parts := make([][]byte, size)
	each := make([][]byte, size)
	for i := range parts {
		parts[i] = algorithms.Span(all, 4, i, size)
		each[i] = all[:length/4/size*4]
	}
	s, err := w.simulate(net, limit, func(me int, team *algorithms.Team) error {
		team.Tune(model, only)
		switch kind {
		case collective.AllReduce:
			return team.AllReduce(sign("timed"), average(0), all, all)
		case collective.Reduce:
			return team.Reduce(sign("timed"), average(0), all, all, root)
		case collective.ReduceScatter:
			return team.ReduceScatter(sign("timed"), average(0), parts[me], parts)
		case collective.AllGather:
			return team.AllGather(sign("timed"), parts)
		case collective.AllToAll:
			return team.AllToAll(sign("timed"), each, each)
		}
		return team.Broadcast(sign("timed"), all, root)
	})
	if err != nil {
		return 0, false, err
	}
	ps, ok = s.time()
	return ps, ok, nil
}

// scenario is a network on which algorithms are compared.
type scenario struct {
	name   string
	cost   algorithms.Cost
	factor int64 // of the slow link's time per byte
}

func scenarios() []scenario {
	return []scenario{
		{"lan", lan(), 1}, {"lan, one slow link", lan(), 4}, {"fast", fast(), 1}, {"fast, one slow link", fast(), 10},
		{"far", far(), 1}, {"crowded", crowded(), 1},
	}
}

// tier returns the factor between lengths that are simulated in a world of so many ranks, or 0.
// Large worlds take long.
func tier(size int) (step int) {
	switch {
	case testing.Short() && size > 33:
		return 0
	case size > 256:
		return 1 << 20
	case testing.Short(), size > 64:
		return 16
	case size > 16:
		return 4
	}
	return 2
}

// grid calls try for kinds, lengths and slow ranks in worlds of 2 to 1,024 ranks.
func (sc scenario) grid(try func(w *world, net network, kind collective.Kind, length int)) {
	net := network{Cost: sc.cost, factor: sc.factor}
	for _, size := range []int{2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 33, 64, 100, 256, 1024} {
		step := tier(size)
		if step == 0 || size > 256 && sc.name != "lan" {
			continue
		}
		slow := []int{0, 1, 2, size / 2, size - 1} // root 1, its neighbours, and one far away
		switch {
		case net.factor <= 1 || size > 100:
			slow = slow[3:4]
		case size > 8:
			slow = []int{1, size / 2, size - 1}
		}
		slices.Sort(slow)
		w := newWorld(size, 1)
		for _, net.slow = range slices.Compact(slow) {
			for length := 8; length <= 1<<30; length *= step {
				for _, kind := range kinds() {
					if net.slow < size {
						try(w, net, kind, length)
					}
				}
			}
		}
	}
}

// The algorithm that a Cost picks takes at most 10 % longer than the best one, in worlds of up to
// 1,024 ranks and for vectors of 8 B to 1 GiB. Where one rank's link is slow it may take half as
// long again, but rarely more than 10 %.
func TestPickIsNearTheBest(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // what a simulation leaves is small
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			bound := near
			cases := 0
			far := 0
			worst := 1.0
			if sc.factor > 1 {
				bound = 1.5
			}
			sc.grid(func(w *world, net network, kind collective.Kind, length int) {
				ratio := nearBest(t, w, net, kind, length, bound)
				worst = max(worst, ratio)
				cases++
				if ratio > near {
					far++
				}
			})
			t.Logf("%d cases; at worst %.3f times the best; %d above %g", cases, worst, far, near)
			check.That(t, far <= cases/100, "%d of %d cases take more than %g times the best", far, cases, near)
		})
	}
}

// near is how many times as long as the best algorithm the picked one may take.
const near = 1.1

// nearBest compares what is picked with all other algorithms, and returns how many times as long as
// the best it takes.
func nearBest(t *testing.T, w *world, net network, kind collective.Kind, length int, bound float64) (ratio float64) {
	t.Helper()
	actual := length
	size := len(w.teams)
	net.Cost, length = scaled(net.Cost, size, length)
	model := net.Cost
	model.Slow = model.Beta * max(net.factor, 1)
	model.Slowest = net.slow
	pick := model.Pick(kind, size, length, root)
	took, _, err := w.timeOf(net, model, kind, pick, length, 0)
	must.OK(t, err, size, "ranks")
	best := took
	at := pick
	for _, other := range candidates(kind) {
		if other == pick {
			continue
		}
		better, ok, err := w.timeOf(net, model, kind, other, length, best)
		must.OK(t, err, size, "ranks")
		if ok {
			best = better
			at = other
		}
	}
	if ratio = float64(took) / float64(best); ratio > bound {
		predicted, _ := model.Time(kind, pick, size, length, root)
		promised, _ := model.Time(kind, at, size, length, root)
		t.Errorf("%v of %d bytes by %d ranks, slow %d: %v takes %.1f µs (%.1f expected), and %v %.1f (%.1f expected)",
			kind, actual, size, net.slow,
			pick, float64(took)/1e6, float64(predicted)/1e6, at, float64(best)/1e6, float64(promised)/1e6)
	}
	return ratio
}

// Results are right in large worlds too.
func TestLargeWorlds(t *testing.T) {
	must.HaveTime(t)
	for _, size := range []int{100, 256} {
		w := newWorld(size, 1)
		for _, kind := range kinds() {
			c := trial{kind: kind, count: 4, root: root}
			if kind.Rooted() || kind == collective.AllReduce {
				c.count = size
			}
			for _, only := range candidates(kind) {
				s, err := w.simulate(network{Cost: lan()}, 0, func(me int, team *algorithms.Team) error {
					team.Tune(lan(), only)
					return c.do(me, team)
				})
				check.OK(t, err, kind, "by", only, size, "ranks")
				check.That(t, !s.over, "%v by %v, %d ranks: given up", kind, only, size)
			}
		}
	}
}

func TestParseNetwork(t *testing.T) {
	for text, want := range map[string]algorithms.Cost{
		"20us,10Gb/s":    {Alpha: 20e6, Overhead: 5e6, Beta: 800, Slow: 800, Gamma: 50},
		"5ms,200Mb/s":    {Alpha: 5e9, Overhead: 5e6, Beta: 40_000, Slow: 40_000, Gamma: 50},
		"1us,0.5Tb/s":    {},
		"1h,1Mb/s":       {Alpha: 10e12, Overhead: 5e6, Beta: 1e6, Slow: 1e6, Gamma: 50},
		"1ns,100000Gb/s": {Alpha: 1000, Overhead: 250, Beta: 1, Slow: 1, Gamma: 1},
		"":               {}, "20us": {}, "20us,": {}, "20us,10": {}, "20us,Gb/s": {}, "0s,1Gb/s": {},
		"20us,-1Gb/s": {}, "20us,NaNGb/s": {},
	} {
		got, err := algorithms.ParseNetwork(text)
		check.That(t, got == want && (err == nil) == (want != algorithms.Cost{}),
			"%q: %+v, %v, want %+v", text, got, err, want)
	}
}
