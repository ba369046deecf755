package engine

import (
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/shm"
)

func TestLayout(t *testing.T) {
	tests := map[string]struct {
		rank                     int
		domains                  [][]int
		domain, index, leaders   int
		whole, split, contiguous bool
		counterparts             []int
	}{
		"alone":                {0, [][]int{{0}}, 0, 0, 1, true, true, true, []int{0}},
		"one host":             {1, [][]int{{0, 1, 2}}, 0, 1, 3, true, false, true, []int{1}},
		"nobody shares":        {2, [][]int{{0}, {1}, {2}}, 2, 0, 1, false, true, true, []int{0, 1, 2}},
		"two by two":           {3, [][]int{{0, 1}, {2, 3}}, 1, 1, 2, false, false, true, []int{1, 3}},
		"round robin":          {2, [][]int{{0, 2}, {1, 3}}, 0, 1, 2, false, false, false, []int{2, 3}},
		"a leader of unlike":   {3, [][]int{{0, 1, 2}, {3}}, 1, 0, 1, false, false, true, []int{0, 3}},
		"no leader":            {1, [][]int{{0, 1, 2}, {3}}, 0, 1, 1, false, false, true, nil},
		"one apart in between": {1, [][]int{{0, 2}, {1}}, 1, 0, 1, false, false, false, []int{0, 1}},
	}
	for name, tt := range tests {
		l := NewLayout(tt.rank, tt.domains)
		check.That(t, l.domain == tt.domain && l.index == tt.index && l.leaders == tt.leaders,
			"%s: domain %d, index %d, %d leaders, want %d, %d, %d", name, l.domain, l.index, l.leaders, tt.domain,
			tt.index, tt.leaders)
		check.That(t, l.Whole() == tt.whole && l.split() == tt.split && l.contiguous() == tt.contiguous,
			"%s: whole %v, split %v, contiguous %v", name, l.Whole(), l.split(), l.contiguous())
		check.Slice(t, l.counterparts(), tt.counterparts, name, "counterparts")
		for _, domain := range tt.domains {
			for i, rank := range domain {
				if near := l.Near(rank); near != slices.Contains(l.mine(), rank) || near && l.place(rank) != i {
					t.Errorf("%s: rank %d: near %v at place %d", name, rank, near, l.place(rank))
				}
			}
		}
	}
}

// Leaders' shards cover the vector, and are cut between elements.
func TestShardsCoverTheVector(t *testing.T) {
	for rank, domains := range [][][]int{{{0, 1, 2}, {3, 4}}, {{0, 1}, {2, 3}}} {
		f := &Fabric{Layout: NewLayout(rank, domains)}
		f.regions = make([]shm.Region, len(f.mine()))
		for _, n := range []int{0, 8, 16, 24, 8 * 1001} {
			end := 0
			for i, r := range f.cut(n, 8) {
				must.That(t, r.Off == end && r.Len%8 == 0 && (i < f.leaders || r.Len <= 0),
					"%d bytes: shard %d is %+v after %d", n, i, r, end)
				end += r.Len
			}
			must.Equal(t, end, n, n, "bytes: shards end at")
		}
	}
}

// Parts between two domains travel together where messages are slow and the parts short.
func TestShortPartsTravelInBundles(t *testing.T) {
	f := &Fabric{Layout: NewLayout(0, [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}, {8, 9, 10, 11}})}
	f.cost = algorithms.Cost{
		Alpha:    20e6,
		Overhead: 4e6,
		Beta:     800,
		Slow:     800,
		Gamma:    50,
	}
	for part, want := range map[int]bool{8: true, 4 << 10: true, 1 << 20: false} {
		check.Equal(t, f.bundles(part*f.Size()), want, "parts of", part, "bytes")
	}
	check.That(t, f.even() && !NewLayout(0, [][]int{{0, 1}, {2}}).even(), "domains of 2 ranks and of 1 are even")
}
