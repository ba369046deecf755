package algorithms_test

import (
	"bytes"
	"fmt"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/gorun/gorun/ring/internal/algorithms"
)

// Networks of the tests, in picoseconds.
func lan() algorithms.Cost {
	return algorithms.Cost{Alpha: 20e6, Overhead: 4e6, Beta: 800, Slow: 800, Gamma: 100}
} // 10 Gb/s
func fast() algorithms.Cost {
	return algorithms.Cost{Alpha: 10e6, Overhead: 2e6, Beta: 80, Slow: 80, Gamma: 100}
} // 100 Gb/s
func far() algorithms.Cost {
	return algorithms.Cost{Alpha: 5e9, Overhead: 10e6, Beta: 40_000, Slow: 40_000, Gamma: 100}
} // 200 Mb/s

func crowded() algorithms.Cost { // ranks that share processors
	return algorithms.Cost{Alpha: 100e6, Overhead: 100e6, Beta: 2000, Slow: 2000, Gamma: 50}
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

// elem is element i of a member's vector, and total of the sum of all. They are exact.
func elem(me, i int) float32 { return float32(me%8 + i%5 + 1) }
func total(size, i int) float32 {
	return float32(size*(i%5+1) + size/8*28 + size%8*(size%8-1)/2)
}

// timeOf simulates a collective by an algorithm, checks its results, and returns how long it took,
// unless that is longer than limit.
func timeOf(net network, model algorithms.Cost, kind algorithms.Kind, only algorithms.Algorithm, size, length int, limit int64) (int64, bool, error) {
	count := length / 4
	sums := floats(count, func(i int) float32 { return total(size, i) })
	const root = 1
	whole := floats(count, func(i int) float32 { return elem(root, i) })
	cut := func(vector []byte) [][]byte {
		parts := make([][]byte, size)
		for i := range parts {
			parts[i] = algorithms.Span(vector, 4, i, size)
		}
		return parts
	}
	s, err := simulate(net, size, 1, limit, func(team *algorithms.Team) { team.Tune(model, only) }, func(me int, team *algorithms.Team) error {
		buf, want := floats(count, func(i int) float32 { return elem(me, i) }), sums
		var err error
		switch kind {
		case algorithms.AllReduce:
			err = team.AllReduce(sign("simulated"), average(0), buf, buf)
		case algorithms.Reduce:
			if err = team.Reduce(sign("simulated"), average(0), buf, buf, root); me != root {
				return err
			}
		case algorithms.ReduceScatter:
			parts := cut(buf)
			err = team.ReduceScatter(sign("simulated"), average(0), parts[me], parts)
			buf, want = parts[me], cut(sums)[me]
		case algorithms.AllGather:
			parts := cut(bytes.Clone(whole))
			for i := range parts {
				if i != me {
					clear(parts[i])
				}
			}
			err = team.AllGather(sign("simulated"), parts)
			buf, want = bytes.Join(parts, nil), whole
		case algorithms.Broadcast:
			err = team.Broadcast(sign("simulated"), buf, root)
			want = whole
		}
		if err == nil && !bytes.Equal(buf, want) {
			return fmt.Errorf("%v by %v of %d bytes: wrong result", kind, only, length)
		}
		return err
	})
	if err != nil {
		return 0, false, err
	}
	ps, ok := s.time()
	return ps, ok, nil
}

// grid calls try for worlds of at most so many ranks, sizes and slow ranks: fewer of them in large
// worlds, which take long.
func grid(net network, most int, try func(net network, kind algorithms.Kind, size, length int)) {
	for _, size := range []int{2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 33, 64, 100, 256, 1024} {
		step, slow := 4, []int{0, 1, 2, size / 2, size - 1} // root 1, its neighbours, and one far away
		if size > most {
			return
		}
		if size > 64 || testing.Short() {
			step = 16
		}
		if size > 256 {
			step = 64
		}
		switch {
		case net.factor <= 1 || size > 100:
			slow = slow[3:4]
		case size > 8:
			slow = []int{1, size / 2, size - 1}
		}
		slices.Sort(slow)
		for _, net.slow = range slices.Compact(slow) {
			for length := 4; length <= 256<<20; length *= step {
				for _, kind := range kinds() {
					if net.slow < size {
						try(net, kind, size, length)
					}
				}
			}
		}
	}
}

// The algorithm that a Cost picks takes at most 10 % longer than the best one, in worlds of up to
// 1,024 ranks and for vectors of up to 256 MiB, also where one rank's link is slow.
func TestPickIsNearTheBest(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1000)) // what a simulation leaves is small
	for _, tt := range []struct {
		name   string
		cost   algorithms.Cost
		factor int64
		most   int
	}{
		{"lan", lan(), 1, 1024}, {"lan, one slow link", lan(), 4, 1024},
		{"fast", fast(), 1, 256}, {"fast, one slow link", fast(), 10, 256}, {"far", far(), 1, 256}, {"crowded", crowded(), 1, 256},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() {
				tt.most = min(tt.most, 33)
			}
			grid(network{Cost: tt.cost, factor: tt.factor}, tt.most, func(net network, kind algorithms.Kind, size, length int) {
				nearBest(t, net, kind, size, length)
			})
		})
	}
}

func nearBest(t *testing.T, net network, kind algorithms.Kind, size, length int) {
	t.Helper()
	actual := length
	net.Cost, length = scaled(net.Cost, size, length)
	model := net.Cost
	model.Slow, model.Slowest = model.Beta*max(net.factor, 1), net.slow
	pick := model.Pick(kind, size, length, 1)
	took, _, err := timeOf(net, model, kind, pick, size, length, 0)
	if err != nil {
		t.Fatalf("%d ranks: %v", size, err)
	}
	for _, other := range candidates(kind) {
		if other == pick {
			continue
		}
		better, ok, err := timeOf(net, model, kind, other, size, length, took*10/11)
		if err != nil {
			t.Fatalf("%d ranks: %v", size, err)
		}
		if ok {
			predicted, _ := model.Time(kind, pick, size, length, 1)
			promised, _ := model.Time(kind, other, size, length, 1)
			t.Errorf("%v of %d bytes by %d ranks, slow %d: %v takes %.1f µs (%.1f expected), and %v %.1f (%.1f expected)", kind, actual, size, net.slow,
				pick, float64(took)/1e6, float64(predicted)/1e6, other, float64(better)/1e6, float64(promised)/1e6)
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
		"":               {}, "20us": {}, "20us,": {}, "20us,10": {}, "20us,Gb/s": {}, "0s,1Gb/s": {}, "20us,-1Gb/s": {}, "20us,NaNGb/s": {},
	} {
		got, err := algorithms.ParseNetwork(text)
		if got != want || (err == nil) != (want != algorithms.Cost{}) {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
}
