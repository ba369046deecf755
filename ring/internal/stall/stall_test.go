package stall

import (
	"errors"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/collective"
)

// A rank publishes a position that it keeps, and its stall is reported once, after the time and the
// grace.
func TestStalledCallIsReportedOnce(t *testing.T) {
	at := func(order, turn uint64, in bool) Word {
		word := wordOf(order, turn, collective.AllReduce)
		if in {
			word |= inCall
		}
		return word
	}
	var w Watch
	for turn := uint64(1); turn < 100; turn++ { // no call lasts long
		news, report := w.Sample(at(2*turn-1, turn, true))
		must.That(t, news == nil && !report, "call %d: %v, %v", turn, news, report)
	}
	var told []int
	for sample := 1; sample <= 10*Samples; sample++ {
		news, report := w.Sample(at(201, 101, true))
		if report {
			w.Reported(true)
			told = append(told, sample)
		}
		var want *Position
		switch sample {
		case 2:
			want = &Position{Order: 201, In: true}
		case Samples + 1:
			want = &Position{Order: 201, In: true, Stalled: true}
		}
		check.That(t, (news == nil) == (want == nil) && (news == nil || *news == *want),
			"sample %d: published %v, want %v", sample, news, want)
	}
	check.That(t, len(told) == 1 && told[0] == Samples+graceSamples+1, "reported at samples %v", told)
	news, report := w.Sample(at(201, 101, false))
	check.That(t, news == nil && !report, "when it is over: %v, %v", news, report)
	if news, _ := w.Sample(at(201, 101, false)); news == nil || news.In || news.Stalled {
		t.Errorf("after it is over: %v", news)
	}
	// Messages share one order, and are many calls.
	for turn := uint64(102); turn < 200; turn++ {
		if _, report := w.Sample(at(202, turn, true)); report {
			t.Fatal("many short messages count as a long one")
		}
	}
}

func TestReached(t *testing.T) {
	for _, tc := range []struct {
		theirs Position
		order  uint64
		want   bool
	}{
		{Position{}, 5, false},
		{Position{Order: 3}, 5, false},
		{Position{Order: 4, In: true}, 5, false}, // in a message before
		{Position{Order: 5, In: true}, 5, true},
		{Position{Order: 5}, 5, true}, // a root that has finished
		{Position{Order: 7}, 5, true},
		{Position{Order: 5}, 6, false},
		{Position{Order: 6}, 6, false}, // between two messages
		{Position{Order: 6, In: true}, 6, true},
		{Position{Order: 7, In: true}, 6, true},
	} {
		check.Equal(t, tc.theirs.Reached(Position{Order: tc.order, In: true}), tc.want, tc.theirs, "reached", tc.order)
		check.Equal(t, Decode(tc.theirs.Encode()), tc.theirs, tc.theirs, "reads as")
	}
	check.Equal(t, Decode([]byte("5 maybe")), (Position{}), "nonsense reads as")
}

func TestFirstOfTheEarliestCallReports(t *testing.T) {
	in := func(order uint64) Position { return Position{Order: order, In: true} }
	stalled := func(order uint64) Position { return Position{Order: order, In: true, Stalled: true} }
	between := func(order uint64) Position { return Position{Order: order} }
	for _, tc := range []struct {
		name   string
		self   int
		ranks  []Position // rank self is stalled
		told   uint64
		late   bool
		absent []int
		err    error
	}{
		{name: "the first of them reports", self: 0,
			ranks: []Position{stalled(33), stalled(33), between(31), stalled(33)}, absent: []int{2}},
		{name: "the others do not report", self: 1,
			ranks: []Position{stalled(33), stalled(33), between(31), stalled(33)}},
		{name: "a rank is unknown", self: 0, ranks: []Position{stalled(1), {}, stalled(1)}, absent: []int{1}},
		{name: "all have reached it", self: 0, ranks: []Position{stalled(33), in(33), in(35)}},
		{name: "a rank in the call before may report", self: 0,
			ranks: []Position{stalled(33), stalled(33), between(29), stalled(31)}, err: ErrOthersReport},
		{name: "it does", self: 3, ranks: []Position{stalled(33), stalled(33), between(29), stalled(31)},
			absent: []int{2}},
		{name: "it has", self: 0, ranks: []Position{stalled(33), stalled(33), between(29), stalled(31)}, told: 31},
		{name: "it has, long ago", self: 0, ranks: []Position{stalled(33), stalled(33), between(29), stalled(31)},
			told: 31, late: true},
		{name: "it has not", self: 0, ranks: []Position{stalled(33), stalled(33), in(31), stalled(31)}, late: true,
			absent: []int{2, 3}},
		{name: "another stall was reported", self: 0, ranks: []Position{stalled(33), stalled(33), between(31)}, told: 7,
			absent: []int{2}},
	} {
		absent, err := Missing(tc.self, len(tc.ranks), tc.ranks[tc.self], Position{Order: tc.told}, tc.late,
			func(rank int) (Position, error) { return tc.ranks[rank], nil })
		var got []int
		for _, m := range absent {
			got = append(got, m.Rank)
		}
		check.That(t, slices.Equal(got, tc.absent) && errors.Is(err, tc.err),
			"%s: %v, %v; want %v, %v", tc.name, got, err, tc.absent, tc.err)
	}
	broken := errors.New("broken")
	if _, err := Missing(0, 2, in(1), Position{}, true, func(int) (Position, error) {
		return Position{}, broken
	}); !errors.Is(err, broken) {
		t.Errorf("the store fails: %v", err)
	}
}
