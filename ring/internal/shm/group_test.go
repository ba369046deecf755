package shm

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
	var wg, closed sync.WaitGroup
	closed.Add(size)
	for rank := range size {
		wg.Go(func() {
			g, err := Join(rank, size, m.exchange(rank), kernels, broken)
			if err != nil || g == nil {
				tb.Errorf("rank %d: group %v, err %v", rank, g, err)
				return
			}
			f(g)
			closed.Done()
			closed.Wait() // a rank that leaves is an error to those that wait for it
			if err := g.Close(); err != nil {
				tb.Error(err)
			}
		})
	}
	wg.Wait()
}

func values(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = r.Float32()*2 - 1
	}
	return v
}

func pointer(v []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(v)) }

func TestAllReduceAddsInRankOrder(t *testing.T) {
	perSlot := slotSize / 4
	for size := 1; size <= 5; size++ {
		counts := []int{0, 1, 2, 11, 12, 13, 15, 16, 17, cellSize/4 - 1, cellSize / 4, cellSize/4 + 1, 10007,
			perSlot - 1, perSlot, perSlot + 1, slots*perSlot + 5, 3*slots*perSlot + 1}
		each(t, size, func(g *Group) {
			for round := range 2 {
				for _, n := range counts {
					var want []float32
					for q := range size {
						v := values(uint64(q+round), n)
						if q == 0 {
							want = v
							continue
						}
						for i := range want {
							want[i] += v[i]
						}
					}
					if round == 1 {
						for i := range want {
							want[i] /= float32(size)
						}
					}
					src := values(uint64(g.rank+round), n)
					dst, divisor := src, 1
					if round == 1 {
						dst, divisor = make([]float32, n), size
					}
					if err := g.AllReduce(7, kernel.F32, kernel.Sum, pointer(dst), pointer(src), n, divisor); err != nil {
						t.Errorf("%d ranks, %d elements: %v", size, n, err)
						return
					}
					for i := range want {
						if dst[i] != want[i] {
							t.Errorf("%d ranks, %d elements, rank %d: element %d is %v, want %v", size, n, g.rank, i, dst[i], want[i])
							return
						}
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

func TestABrokenJobEndsEveryWait(t *testing.T) {
	for _, n := range []int{1, 10000, 1000000} {
		var broken atomic.Bool
		run(t, 3, &broken, func(g *Group) {
			v := values(1, n)
			if err := g.AllReduce(1, kernel.F32, kernel.Sum, pointer(v), pointer(v), n, 1); err != nil {
				t.Error(err)
			}
			if g.rank == 2 {
				broken.Store(true) // it dies before the next call
				return
			}
			begun := time.Now()
			err := g.AllReduce(1, kernel.F32, kernel.Sum, pointer(v), pointer(v), n, 1)
			if took := time.Since(begun); !errors.Is(err, ErrBroken) || took > time.Second {
				t.Errorf("%d elements: %v after %v", n, err, took)
			}
		})
	}
}

func TestMemoryOfAnotherIsNotTaken(t *testing.T) {
	_, file, offer, err := create(2)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := open(offer, 2); err != nil {
		t.Fatalf("the right offer: %v", err)
	}
	for what, text := range map[string]string{
		"no offer":    "",
		"other nonce": strings.Replace(string(offer), `"Nonce":"`, `"Nonce":"AAAA`, 1),
		"stdin":       fmt.Sprintf(`{"PID":%d,"FD":0}`, os.Getpid()),
		"no process":  `{"PID":999999999,"FD":3}`,
	} {
		if s, err := open([]byte(text), 2); err == nil {
			s.close()
			t.Errorf("%s was taken", what)
		}
	}
	if s, err := open(offer, 3); err == nil {
		s.close()
		t.Error("memory of another size was taken")
	}
}

func TestNoAllocations(t *testing.T) {
	each(t, 1, func(g *Group) {
		v := values(1, 100000)
		for _, n := range []int{1, 1000, len(v)} {
			if a := testing.AllocsPerRun(20, func() {
				if err := g.AllReduce(1, kernel.F32, kernel.Sum, pointer(v), pointer(v), n, 2); err != nil {
					t.Error(err)
				}
			}); a > 0 {
				t.Errorf("%d elements: %v allocations", n, a)
			}
		}
	})
}

func BenchmarkAllReduce(b *testing.B) {
	for _, size := range []int{2, 4} {
		for bytes := 4; bytes <= 64<<20; bytes *= 16 {
			b.Run(fmt.Sprintf("ranks=%d/bytes=%d", size, bytes), func(b *testing.B) {
				b.SetBytes(int64(bytes))
				each(b, size, func(g *Group) {
					n := bytes / 4
					v := values(1, n)
					for range b.N {
						_ = g.AllReduce(1, kernel.F32, kernel.Sum, pointer(v), pointer(v), n, size)
					}
				})
			})
		}
	}
}
