package shm

import (
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// meeting makes the exchanges of ranks that are goroutines, and over HTTP those of processes.
type meeting struct {
	mu     sync.Mutex
	size   int
	rounds map[string]*round
	over   chan struct{} // ends all exchanges
}

type round struct {
	values [][]byte
	left   int
	full   chan struct{}
}

func newMeeting(size int) *meeting {
	return &meeting{size: size, rounds: map[string]*round{}, over: make(chan struct{})}
}

func (m *meeting) end() { close(m.over) }

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
		select {
		case <-r.full:
			return r.values, nil
		case <-m.over:
			return nil, errors.New("the test is over")
		}
	}
}

// ServeHTTP makes the exchange NAME of a rank: POST /RANK/NAME.
func (m *meeting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	number, name, _ := strings.Cut(r.URL.Path[1:], "/")
	rank, _ := strconv.Atoi(number)
	value, _ := io.ReadAll(r.Body)
	if values, err := m.exchange(rank)(name, value); err == nil {
		_ = json.NewEncoder(w).Encode(values)
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
	kernels := must.Get(kernel.Detect(os.Getenv("RING_SIMD")))(tb)
	m := newMeeting(size)
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
			check.OK(tb, g.Close())
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

func pointer(v []float32) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(v)) }

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
			check.That(t, err != nil && (errors.As(err, &other) || errors.Is(err, ErrBroken)),
				"rank %d, %d elements: %v", g.rank, n, err)
			broken.Store(true) // as ring does with the first error
		})
	}
}
