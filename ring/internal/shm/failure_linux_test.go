package shm

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// fenced is a vector between guard bytes.
type fenced struct{ all, inner []byte }

const fence = 4096

func newFenced(n int) fenced {
	all := slices.Repeat([]byte{0x5a}, n+2*fence)
	return fenced{all, all[fence:][:n:n]}
}

func (f fenced) broken() bool {
	outside := func(b byte) bool { return b != 0x5a }
	return slices.ContainsFunc(f.all[:fence], outside) || slices.ContainsFunc(f.all[len(f.all)-fence:], outside)
}

// A peer that writes anything anywhere in the shared memory corrupts results and fails calls.
// No rank crashes or writes past a result. R15 of the fault matrix.
func TestScribblingPeer(t *testing.T) {
	must.HaveTime(t)
	for seed := range uint64(4) {
		var broken atomic.Bool
		var finished atomic.Int32
		var calling sync.WaitGroup
		calling.Add(2)
		run(t, 3, &broken, func(g *Group) {
			if g.rank == 2 {
				scribble(g.seg, rand.New(rand.NewPCG(seed, 5)), func() bool { return finished.Load() == 2 })
				return
			}
			defer finished.Add(1)
			deadline := time.Now().Add(200 * time.Millisecond)
			failed := false
			for i := 0; !failed || time.Now().Before(deadline); i++ {
				if hostileRound(t, g, i) != nil {
					failed = true
				}
				if g.rank == 0 && i%50 == 49 {
					broken.Store(!broken.Load()) // else ranks may wait for each other for long
				}
			}
			broken.Store(true)
			calling.Done()
			calling.Wait()
		})
	}
}

// scribble overwrites control data at random until over returns true.
func scribble(s *segment, r *rand.Rand, over func() bool) {
	head := s.memory[lineSize:headSize(len(s.controls))]
	control := int(unsafe.Sizeof(control{})) * len(s.controls)
	for !over() {
		for range 100 {
			at := r.IntN(len(head) / 8)
			if r.IntN(4) > 0 {
				at = r.IntN((control + int(unsafe.Sizeof(pair{}))*len(s.pairs)) / 8)
			}
			word := (*uint64)(unsafe.Pointer(&head[8*at]))
			switch r.IntN(4) {
			case 0:
				atomic.StoreUint64(word, r.Uint64())
			case 1:
				atomic.StoreUint64(word, ^uint64(0))
			default:
				atomic.AddUint64(word, 1<<(r.IntN(3)*16)*uint64(1+r.IntN(3)))
			}
		}
		yield()
	}
}

// hostileRound makes one call on fenced memory. Its result may be anything.
func hostileRound(t *testing.T, g *Group, i int) error {
	n := []int{0, 8, 4000, 300_000, 800_000}[i%5]
	v := newFenced(n)
	w := newFenced(n)
	third := n / 3 &^ 3
	regions := []Region{{0, third}, {third, third}, {2 * third, n - 2*third}}
	mine := at(v.inner, regions[g.rank])
	var err error
	p := bytesAt(v.inner)
	q := bytesAt(w.inner)
	switch i / 5 % 7 {
	case 0:
		err = g.AllReduce(1, kernel.F32, kernel.Sum, p, p, n/4, 3)
	case 1:
		err = g.Reduce(1, kernel.F32, kernel.Sum, p, p, n/4, 1, i%3)
	case 2:
		err = g.ReduceScatter(1, kernel.F32, kernel.Sum, mine, p, regions, 1)
	case 3:
		err = g.AllGatherV(1, p, mine, regions)
	case 4:
		err = g.Broadcast(1, p, n, i%3)
	case 5:
		err = g.Swap(1, 1-g.rank, p, n, 1-g.rank, q, n)
	case 6:
		err = g.Swap(1, None, nil, 0, 2, q, n) // the peer has sent nothing
	}
	check.That(t, !v.broken() && !w.broken(), "call %d of %d bytes has written past its result", i, n)
	return err
}
