package negotiate

import (
	"math/rand/v2"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/kernel"
)

func TestFuse(t *testing.T) {
	of := func(name string, typ kernel.Type, op kernel.Op, bytes int) Item {
		return Item{Request: Request{
			Name:  name,
			Kind:  collective.AllReduce,
			Type:  typ,
			Op:    op,
			Count: uint64(bytes / typ.Size()),
		}}
	}
	sum := func(name string, bytes int) Item { return of(name, kernel.F32, 1, bytes) }
	other := func(name string, kind collective.Kind) Item {
		return Item{Request: Request{
			Name:  name,
			Kind:  kind,
			Type:  kernel.F32,
			Count: 4,
		}}
	}
	tests := []struct {
		name      string
		threshold int64
		ready     []Item
		want      string
	}{
		{"those from 500 bytes", 2000, []Item{sum("a", 4), sum("b", 500), sum("c", 4), sum("d", 496), sum("e", 600)},
			"a c d | b | e "},
		{"nothing", 1000, nil, ""},
		{"all fit", 1000, []Item{sum("a", 100), sum("b", 100), sum("c", 4)}, "a b c "},
		{"exactly full", 228, []Item{sum("a", 100), sum("b", 100)}, "a b "},
		{"a byte too little", 227, []Item{sum("a", 100), sum("b", 100)}, "a | b "},
		{"never", 0, []Item{sum("a", 4), sum("b", 4), sum("c", 0), sum("d", 0)}, "a | b | c | d "},
		{"large one alone", 256, []Item{sum("a", 4), sum("big", 1000), sum("b", 4), sum("c", 4)}, "a | big | b c "},
		{"large one first", 256, []Item{sum("big", 1000), sum("b", 4), sum("c", 4)}, "big | b c "},
		{"ops and types apart", 1000, []Item{of("a", kernel.F32, 1, 8), of("b", kernel.F32, 2, 8),
			of("c", kernel.I32, 1, 8)}, "a | b | c "},
		{"types alternate", 1000, []Item{sum("a", 8), of("b", kernel.F16, 1, 8), sum("c", 8),
			of("d", kernel.F16, 1, 8)}, "a c | b d "},
		{"skips no more than a buffer", 256, []Item{sum("a", 8), of("b", kernel.F64, 1, 200),
			of("c", kernel.F64, 1, 200), sum("d", 8)}, "a | b | c | d "},
		{"fills up behind one that does not fit", 256, []Item{sum("a", 128), sum("b", 192), sum("c", 64)}, "a c | b "},
		{"other kinds alone", 1000, []Item{sum("a", 8), other("g", collective.AllGather),
			other("r", collective.ReduceScatter), other("b", collective.Broadcast), sum("c", 8)}, "a c | g | r | b "},
		{"empty ones", 1000, []Item{sum("a", 0), sum("b", 0)}, "a b "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := fuser{large: 500}
			got := Outcome{Batches: f.fuse(tt.ready, tt.threshold)}
			check.Equal(t, names(got), tt.want)
			checkBatches(t, got.Batches, tt.ready, tt.threshold)
		})
	}
}

// checkBatches checks the invariants of batches: every item is in exactly one; tensors of one
// buffer are alike and do not overlap; buffers are within bounds.
func checkBatches(t *testing.T, batches []Batch, ready []Item, threshold int64) {
	t.Helper()
	seen := map[string]bool{}
	for _, b := range batches {
		end := int64(0)
		for i, item := range b.Items {
			check.That(t, !seen[item.Name], "%s is there twice", item.Name)
			seen[item.Name] = true
			check.That(t, item.Offset%Align == 0 && item.Offset >= end && item.Offset < end+Align,
				"%s begins at %d, behind one that ends at %d", item.Name, item.Offset, end)
			if i > 0 && (item.Kind != collective.AllReduce || item.Type != b.Items[0].Type ||
				item.Op != b.Items[0].Op || item.GPU != b.Items[0].GPU) {
				t.Errorf("%v in one batch with %v", item.Request, b.Items[0].Request)
			}
			end = item.Offset + item.Bytes()
		}
		check.That(t, b.Bytes == end && len(b.Items) != 0 && (len(b.Items) <= 1 || b.Bytes <= threshold),
			"a batch of %d items with %d bytes, the last of which ends at %d", len(b.Items), b.Bytes, end)
	}
	check.That(t, len(seen) == len(ready), "%d of %d items are in batches", len(seen), len(ready))
}

func TestFuseRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var f fuser
	fused := 0
	for range 2000 {
		ready := make([]Item, random.IntN(60))
		for i := range ready {
			r := Request{
				Name: string(rune('A' + i)),
				Kind: collective.AllReduce,
				Type: kernel.F32 + kernel.Type(random.IntN(3)),
				Op:   kernel.Op(1 + random.IntN(2)),
			}
			if random.IntN(10) == 0 {
				r.Kind = collective.AllGather
			}
			r.Count = uint64(random.IntN(300))
			r.GPU = random.IntN(2) == 0
			ready[i].Request = r
		}
		threshold := int64(random.IntN(4000))
		batches := f.fuse(ready, threshold)
		checkBatches(t, batches, ready, threshold)
		for _, b := range batches {
			fused += len(b.Items) - 1
		}
	}
	check.That(t, fused >= 1000, "only %d items were fused with another: the test tests little", fused)
}
