package shm

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestPartition(t *testing.T) {
	const none = None
	tests := []struct {
		what    string
		leaders []int
		want    [][]int
	}{
		{"nobody", nil, nil},
		{"one", []int{0}, [][]int{{0}}},
		{"one host", []int{0, 0, 0}, [][]int{{0, 1, 2}}},
		{"two hosts", []int{0, 0, 2, 2}, [][]int{{0, 1}, {2, 3}}},
		{"two hosts in turn", []int{0, 1, 0, 1, 0}, [][]int{{0, 2, 4}, {1, 3}}},
		{"nobody is willing", []int{none, none, none}, [][]int{{0}, {1}, {2}}},
		{"the first is not willing", []int{none, 1, 1}, [][]int{{0}, {1, 2}}},
		{"one between is not willing", []int{0, none, 0}, [][]int{{0, 2}, {1}}},
		{"a leader that follows another", []int{0, 0, 1}, [][]int{{0, 1}, {2}}},
		{"a leader that leads nobody", []int{none, 0, 0}, [][]int{{0}, {1}, {2}}},
		{"a leader above", []int{1, 1, 1}, [][]int{{0}, {1, 2}}},
		{"each other", []int{1, 0}, [][]int{{0}, {1}}},
		{"no such rank", []int{0, 7, -9, 0}, [][]int{{0, 3}, {1}, {2}}},
	}
	for _, tt := range tests {
		got := partition(tt.leaders)
		check.That(t, reflect.DeepEqual(got, tt.want), "%s: %v, want %v", tt.what, got, tt.want)
	}
}

// sound returns what is wrong with the domains of size ranks, or "".
func sound(domains [][]int, size int) string {
	seen := make([]bool, size)
	first := -1
	for _, d := range domains {
		if len(d) == 0 || !slices.IsSorted(d) || d[0] <= first {
			return fmt.Sprintf("%v are not in order", domains)
		}
		first = d[0]
		for _, q := range d {
			if seen[q] {
				return fmt.Sprintf("rank %d is twice in %v", q, domains)
			}
			seen[q] = true
		}
	}
	if q := slices.Index(seen, false); q >= 0 {
		return fmt.Sprintf("rank %d is not in %v", q, domains)
	}
	return ""
}

func TestAnyAnswersMakeAPartition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	apart := 0
	for range 5000 {
		size := 1 + r.IntN(9)
		leaders := make([]int, size)
		ok := make([]bool, size)
		for q := range leaders {
			leaders[q] = r.IntN(size+3) - 2
			ok[q] = r.IntN(6) > 0
		}
		domains := partition(leaders)
		must.Equal(t, sound(domains, size), "", "leaders", leaders)
		left := splitFailed(domains, ok)
		must.Equal(t, sound(left, size), "", "leaders", leaders, "ok", ok)
		for _, d := range left {
			for _, q := range d {
				must.That(t, len(d) <= 1 || ok[q],
					"leaders %v, ok %v: rank %d failed, but is in %v", leaders, ok, q, left)
				if whole, place := domainOf(left, q); !slices.Equal(whole, d) || d[place] != q {
					t.Fatalf("rank %d of %v is found at %d of %v", q, left, place, whole)
				}
			}
		}
		if len(left) > len(domains) {
			apart++
		}
		must.That(t, shared(left) == (len(left) < size), "%v: shared is wrong", left)
	}
	check.That(t, apart != 0, "no domain ever fell apart")
}
