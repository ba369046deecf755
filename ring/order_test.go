package ring_test

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// inRankOrder is the ranks of hosts, which add in the order of ranks.
func inRankOrder(hosts ...int) func(t *testing.T) []*ring.Comm {
	return func(t *testing.T) []*ring.Comm {
		l := stacked(hosts, "RING_ORDER=rank")
		return l.join(t, l.job(t))
	}
}

// reduced makes one reduction of values that no order adds exactly, and returns the result: of all
// ranks, one after the other.
func reduced(comms []*ring.Comm, kind ring.Kind, typ ring.Type, op ring.Op, n int) ([]byte, error) {
	results := make([][]byte, len(comms))
	err := ringtest.Each(len(comms), func(rank int) error {
		src := awkwardVector(typ, rank, n)
		w := ring.Collective{
			Kind: kind,
			Type: typ,
			Op:   op,
			Root: len(comms) - 1,
			Src:  buffer(typ, src),
		}
		dst := make([]byte, len(src))
		switch kind {
		case ring.KindAllReduce:
			w.Root = 0
		case ring.KindReduceScatter:
			w.Root = 0
			w.Counts = make([]int, len(comms))
			left := n
			for i := range w.Counts {
				w.Counts[i] = min(left, n/len(comms)+i)
				left -= w.Counts[i]
			}
			w.Counts[len(comms)-1] += left
			dst = dst[:w.Counts[rank]*typ.Size()]
		case ring.KindReduce:
			if rank != w.Root {
				dst = nil
			}
		}
		w.Dst = buffer(typ, dst)
		results[rank] = dst
		return comms[rank].Do(ctx, w)
	})
	return bytes.Join(results, nil), err
}

func buffer(typ ring.Type, b []byte) ring.Buffer {
	return ring.Buffer{Ptr: unsafe.Pointer(unsafe.SliceData(b)), Len: len(b) / typ.Size()}
}

// In rank order, reductions have the same bits wherever the ranks are: those of one host.
func TestRankOrderHasTheSameBitsOnEveryLayout(t *testing.T) {
	must.HaveTime(t)
	type reduction struct {
		kind ring.Kind
		typ  ring.Type
		op   ring.Op
		n    int
	}
	var all []reduction
	for _, kind := range []ring.Kind{ring.KindAllReduce, ring.KindReduce, ring.KindReduceScatter} {
		for _, typ := range []ring.Type{ring.Float32, ring.Float64, ring.Float16, ring.BFloat16} {
			for _, op := range ops {
				for _, n := range []int{1, 150, 40_001} {
					all = append(all, reduction{kind, typ, op, n})
				}
			}
		}
		all = append(all, reduction{kind, ring.Float32, ring.Sum, 2_500_003}) // more than the scratch memory
	}
	type sized struct {
		ranks int
		reduction
	}
	want := map[sized][]byte{}
	for _, layout := range []struct {
		name string
		join func(t *testing.T) []*ring.Comm
	}{
		{"one host", inRankOrder(4)},
		{"2+2", inRankOrder(2, 2)},
		{"3+1", inRankOrder(3, 1)},
		{"1+1+2", inRankOrder(1, 1, 2)},
		{"1+1+1+1", inRankOrder(1, 1, 1, 1)},
		{"interleaved 2+2", interleaved(inRankOrder(2, 2))},
		{"interleaved 3+1", interleaved(inRankOrder(3, 1))},
		{"six on one host", inRankOrder(6)},
		{"2+2+2", inRankOrder(2, 2, 2)},
		{"4+2", inRankOrder(4, 2)},
		{"2+1+1+2", inRankOrder(2, 1, 1, 2)},
		{"3+3", inRankOrder(3, 3)},
	} {
		t.Run(layout.name, func(t *testing.T) {
			comms := layout.join(t)
			for _, r := range all {
				got, err := reduced(comms, r.kind, r.typ, r.op, r.n)
				must.OK(t, err, fmt.Sprint(r))
				first := sized{len(comms), r}
				if want[first] == nil {
					want[first] = got
				}
				check.That(t, bytes.Equal(got, want[first]), "%v has other bits than on one host", r)
			}
		})
	}
}
