package shm

import (
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// meeting is an Exchange for ranks that are goroutines.
type meeting struct {
	mu     sync.Mutex
	size   int
	rounds map[string]*round
}

type round struct {
	values [][]byte
	left   int
	full   chan struct{}
}

func (m *meeting) exchange(rank int) Exchange {
	return func(name string, value []byte) ([][]byte, error) {
		m.mu.Lock()
		r := m.rounds[name]
		if r == nil {
			r = &round{values: make([][]byte, m.size), left: m.size, full: make(chan struct{})}
			m.rounds[name] = r
		}
		r.values[rank] = value
		if r.left--; r.left == 0 {
			close(r.full)
		}
		m.mu.Unlock()
		<-r.full
		return r.values, nil
	}
}

// each runs f as every rank of a group.
func each(tb testing.TB, size int, f func(g *Group)) (broken *atomic.Bool) {
	tb.Helper()
	broken = &atomic.Bool{}
	run(tb, size, broken, f)
	return broken
}

func run(tb testing.TB, size int, broken *atomic.Bool, f func(g *Group)) {
	tb.Helper()
	kernels, err := kernel.Detect(os.Getenv("RING_SIMD"))
	if err != nil {
		tb.Fatal(err)
	}
	m := &meeting{size: size, rounds: map[string]*round{}}
	var wg, done sync.WaitGroup
	done.Add(size)
	for rank := range size {
		wg.Go(func() {
			g, domains, err := Join(rank, size, true, m.exchange(rank), kernels, broken)
			if err != nil || g == nil || len(domains) != 1 || g.rank != rank {
				tb.Errorf("rank %d: group %v, domains %v, err %v", rank, g, domains, err)
				done.Done()
				return
			}
			f(g)
			done.Done()
			done.Wait() // a rank that leaves is an error to those that wait for it
			if err := g.Close(); err != nil {
				tb.Error(err)
			}
		})
	}
	wg.Wait()
}

// table holds the values of all vectors: making them anew would take longer than the tests.
var table = sync.OnceValue(func() []float32 {
	r := rand.New(rand.NewPCG(1, 1))
	v := make([]float32, 4<<20)
	for i := range v {
		v[i] = r.Float32()*2 - 1
	}
	return v
})

// values returns n numbers determined by seed.
func values(seed uint64, n int) []float32 { return slices.Clone(table()[31*seed:][:n:n]) }

// sumOf returns the sum of the values of seeds first to first+size-1, in that order.
func sumOf(first uint64, size, n int) []float32 {
	sum := values(first, n)
	for q := 1; q < size; q++ {
		for i, x := range table()[31*(first+uint64(q)):][:n] {
			sum[i] += x
		}
	}
	return sum
}

func pointer(v []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(v)) }

func TestAllReduceAddsInRankOrder(t *testing.T) {
	perSlot := slotSize / 4
	for _, size := range []int{2, 3, 5} {
		counts := []int{0, 1, 2, 11, 12, 13, 15, 16, 17, cellSize/4 - 1, cellSize / 4, cellSize/4 + 1, 10007,
			perSlot - 1, perSlot, perSlot + 1, (slots+2)*perSlot + 1}
		sums := map[int][]float32{}
		for _, n := range counts {
			sums[n] = sumOf(0, size, n)
		}
		each(t, size, func(g *Group) {
			for round := range 2 {
				for _, n := range counts {
					want := sums[n]
					if round == 1 {
						want = slices.Clone(want)
						for i := range want {
							want[i] /= float32(size)
						}
					}
					src := values(uint64(g.rank), n)
					dst := src
					divisor := 1
					if round == 1 {
						dst = make([]float32, n)
						divisor = size
					}
					if err := g.AllReduce(7, kernel.F32, kernel.Sum, pointer(dst), pointer(src), n,
						divisor); err != nil {
						t.Errorf("%d ranks, %d elements: %v", size, n, err)
						return
					}
					if !slices.Equal(dst, want) {
						t.Errorf("%d ranks, %d elements, rank %d, round %d: a wrong result", size, n, g.rank, round)
						return
					}
				}
			}
		})
	}
}

func TestAnotherCallIsAnError(t *testing.T) {
	for _, n := range []int{1, 100, 10000, 1000000} {
		var broken atomic.Bool
		run(t, 3, &broken, func(g *Group) {
			v := values(1, n)
			sign := uint64(5)
			if g.rank == 1 {
				sign = 6
			}
			err := g.AllReduce(sign, kernel.F32, kernel.Sum, pointer(v), pointer(v), n, 1)
			var other *SignError
			if err == nil || (!errors.As(err, &other) && !errors.Is(err, ErrBroken)) {
				t.Errorf("rank %d, %d elements: %v", g.rank, n, err)
			}
			broken.Store(true) // as ring does with the first error
		})
	}
}
