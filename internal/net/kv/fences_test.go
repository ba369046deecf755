package kv

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// Members bring values and end in any order, some again, and fences complete.
func TestStuckFencesAreKnown(t *testing.T) {
	const members = 4
	stuck := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		g := NewFences(members)
		var ended []int
		for range 60 {
			name := string(rune('a' + random.IntN(8)))
			member := random.IntN(members)
			if random.IntN(20) > 0 {
				_, _ = g.Add(name, map[int][]byte{member: nil}) // an error for one that comes twice
			} else if g.End(member); !slices.Contains(ended, member) {
				ended = append(ended, member)
			}
			want := ""
			of := 0
			by := 0
			for _, open := range slices.Sorted(maps.Keys(g.open)) {
				missing := slices.IndexFunc(ended, func(m int) bool { _, in := g.open[open].values[m]; return !in })
				if want == "" && missing >= 0 {
					want = open
					of = ended[missing]
					by = slices.Min(slices.Collect(maps.Keys(g.open[open].values)))
				}
			}
			got, who, waiter, is := g.Stuck()
			must.That(t, is == (want != "") && got == want && who == of && waiter == by,
				"seed %d: %d waits in %q for %d, want %d in %q for %d", seed, waiter, got, who, by, want, of)
			if is {
				stuck++
			}
		}
	}
	check.That(t, stuck > 1000, "only %d fences were stuck", stuck)
}

// A host may have all its ranks end in as many fences as it may open.
func TestManyEndsTakeLittleTime(t *testing.T) {
	took := func(ends int) (least time.Duration) {
		g := NewFences(ends + 1)
		values := map[int][]byte{}
		for member := range ends {
			values[member] = nil
		}
		for i := range maxOpen / 2 {
			must.Get(g.AddBy("a", fmt.Sprint(i), values))(t)
		}
		for member := range ends {
			g.End(member)
		}
		for range 5 {
			began := time.Now()
			_, _, _, stuck := g.Stuck()
			now := time.Since(began)
			must.That(t, !stuck, "all that have ended are in")
			least = cmp.Or(min(least, now), now)
		}
		return least
	}
	few := took(1)
	many := took(1000)
	check.That(t, many < 50*few, "%v with one end, %v with 1000", few, many)
}

// A host of tens of thousands of ranks may end them one by one while a fence waits for one of them.
func TestEndsBesideAStuckFenceTakeLittleTime(t *testing.T) {
	const members = 1 << 16
	f := NewFences(members)
	values := map[int][]byte{}
	for member := range members / 2 {
		values[member] = nil
	}
	must.Get(f.Add("f", values))(t)
	start := time.Now()
	for member := range members {
		f.End(member)
		_, missing, waiter, stuck := f.Stuck()
		must.That(t, stuck == (member >= members/2) && (!stuck || missing == members/2 && waiter == 0),
			"stuck %v after the end of %d: %d waits for %d", stuck, member, waiter, missing)
	}
	took := time.Since(start)
	check.That(t, took < 5*time.Second, "%v for %d ends", took, members)
}
