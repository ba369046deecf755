package negotiate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/collective"
)

func TestLeave(t *testing.T) {
	w := newWorld(t, 3, defaults())
	for rank := range 3 {
		w.submit(rank, sumOf("a", 1))
	}
	w.ranks[1].Leave()
	w.ranks[2].Leave()
	out := w.cycle()
	check.That(t, slices.Equal(out.Left, []int{1, 2}) && len(out.Batches)+len(out.Failures) <= 0,
		"ranks 1 and 2 leave, and it comes to %+v", out)
	if _, err := w.step(w.pack()); err == nil {
		t.Error("a step after the last one")
	}
}

func TestMissing(t *testing.T) {
	w := newWorld(t, 3, defaults())
	check := func(open bool, want ...int) {
		t.Helper()
		for _, n := range w.ranks {
			if got := n.Missing("a"); !slices.Equal(got, want) || n.Open("a") != open {
				t.Errorf("missing %v, open %v; want %v, %v", got, n.Open("a"), want, open)
			}
		}
	}
	check(false)
	w.submit(1, sumOf("a", 1))
	check(false)
	w.cycle()
	check(true, 0, 2)
	w.submit(0, sumOf("a", 1))
	w.cycle()
	check(true, 2)
	w.submit(2, sumOf("a", 1))
	w.cycle()
	check(false)
}

func TestArrivals(t *testing.T) {
	var got []string
	c := defaults()
	c.Arrived = func(name string, kind collective.Kind, rank int, first bool) {
		got = append(got, fmt.Sprint(name, " ", kind, " ", rank, " ", first))
	}
	w := newWorld(t, 2, c)
	for range 2 { // the second time, by id
		got = nil
		w.submit(1, sumOf("a", 1))
		w.submit(1, Request{Name: "b", Kind: collective.Barrier})
		w.cycle()
		w.submit(0, sumOf("a", 1))
		w.submit(0, Request{Name: "b", Kind: collective.Barrier})
		w.cycle()
		// Each rank hears the same.
		want := []string{"a allreduce 1 true", "b barrier 1 true", "a allreduce 1 true", "b barrier 1 true",
			"a allreduce 0 false", "b barrier 0 false", "a allreduce 0 false", "b barrier 0 false"}
		check.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
	}
}

func TestWithdraw(t *testing.T) {
	box := NewOutbox(0, 2)
	for _, name := range []string{"a", "b", "c"} {
		must.OK(t, box.Submit(sumOf(name, 1)))
	}
	box.Withdraw(2)
	box.Done("b")
	box.Done("c")
	if list := box.List(); len(list) != 1 || list[0].Name != "a" || box.InFlight() != 1 {
		t.Errorf("%d in flight, and to send %v", box.InFlight(), list)
	}
	check.OK(t, box.Submit(sumOf("c", 1)))
}
