package ring

import (
	"errors"
	"slices"
	"testing"
)

// A rank leaves word once it stands still, and has its stall reported once, after the time and the grace.
func TestVigil(t *testing.T) {
	at := func(place, turn uint64, in bool) uint64 {
		word := place<<postPlace | turn<<postTurn | uint64(KindAllReduce)<<postKind
		if in {
			word |= inCall
		}
		return word
	}
	var v vigil
	for turn := uint64(1); turn < 100; turn++ { // no call lasts
		if news, report := v.look(at(2*turn-1, turn, true)); news != nil || report {
			t.Fatalf("call %d: %v, %v", turn, news, report)
		}
	}
	var told []int
	for look := 1; look <= 10*stallLooks; look++ {
		news, report := v.look(at(201, 101, true))
		if report {
			v.done = true
			told = append(told, look)
		}
		var want *standing
		switch look {
		case 2:
			want = &standing{place: 201, in: true}
		case stallLooks + 1:
			want = &standing{place: 201, in: true, stalled: true}
		}
		if (news == nil) != (want == nil) || news != nil && *news != *want {
			t.Errorf("look %d: said %v, want %v", look, news, want)
		}
	}
	if len(told) != 1 || told[0] != stallLooks+graceLooks+1 {
		t.Errorf("reported at looks %v", told)
	}
	if news, report := v.look(at(201, 101, false)); news != nil || report {
		t.Errorf("when it is over: %v, %v", news, report)
	}
	if news, _ := v.look(at(201, 101, false)); news == nil || news.in || news.stalled {
		t.Errorf("after it is over: %v", news)
	}
	// Messages have one place, and are many calls.
	for turn := uint64(102); turn < 200; turn++ {
		if _, report := v.look(at(202, turn, true)); report {
			t.Fatal("many short messages are taken for a long one")
		}
	}
}

func TestWhoHasCome(t *testing.T) {
	for _, tc := range []struct {
		theirs standing
		place  uint64
		want   bool
	}{
		{standing{}, 5, false},
		{standing{place: 3}, 5, false},
		{standing{place: 4, in: true}, 5, false}, // in a message before
		{standing{place: 5, in: true}, 5, true},
		{standing{place: 5}, 5, true}, // a root that is through
		{standing{place: 7}, 5, true},
		{standing{place: 5}, 6, false},
		{standing{place: 6}, 6, false}, // between two messages
		{standing{place: 6, in: true}, 6, true},
		{standing{place: 7, in: true}, 6, true},
	} {
		if got := tc.theirs.come(standing{place: tc.place, in: true}); got != tc.want {
			t.Errorf("%+v has come to %d: %v", tc.theirs, tc.place, got)
		}
		if got := decodeStanding(tc.theirs.encode()); got != tc.theirs {
			t.Errorf("%+v reads as %+v", tc.theirs, got)
		}
	}
	if got := decodeStanding([]byte("5 maybe")); got != (standing{}) {
		t.Errorf("nonsense reads as %+v", got)
	}
}

// One rank tells of a stall: the first of those in the earliest call that has anybody missing.
func TestWhoIsMissing(t *testing.T) {
	in := func(place uint64) standing { return standing{place: place, in: true} }
	stalled := func(place uint64) standing { return standing{place: place, in: true, stalled: true} }
	between := func(place uint64) standing { return standing{place: place} }
	for _, tc := range []struct {
		name   string
		self   int
		ranks  []standing // rank self is stalled
		told   uint64
		late   bool
		absent []int
		err    error
	}{
		{name: "the first of them tells", self: 0, ranks: []standing{stalled(33), stalled(33), between(31), stalled(33)}, absent: []int{2}},
		{name: "the others do not", self: 1, ranks: []standing{stalled(33), stalled(33), between(31), stalled(33)}},
		{name: "nothing is known of a rank", self: 0, ranks: []standing{stalled(1), {}, stalled(1)}, absent: []int{1}},
		{name: "all have come", self: 0, ranks: []standing{stalled(33), in(33), in(35)}},
		{name: "a rank in the call before tells", self: 0, ranks: []standing{stalled(33), stalled(33), between(29), stalled(31)}, err: errOthersTell},
		{name: "so it does", self: 3, ranks: []standing{stalled(33), stalled(33), between(29), stalled(31)}, absent: []int{2}},
		{name: "so it has", self: 0, ranks: []standing{stalled(33), stalled(33), between(29), stalled(31)}, told: 31},
		{name: "so it has, long ago", self: 0, ranks: []standing{stalled(33), stalled(33), between(29), stalled(31)}, told: 31, late: true},
		{name: "it has not", self: 0, ranks: []standing{stalled(33), stalled(33), in(31), stalled(31)}, late: true, absent: []int{2, 3}},
		{name: "another stall was told of", self: 0, ranks: []standing{stalled(33), stalled(33), between(31)}, told: 7, absent: []int{2}},
	} {
		absent, err := whoIsMissing(tc.self, len(tc.ranks), tc.ranks[tc.self], standing{place: tc.told}, tc.late,
			func(rank int) (standing, error) { return tc.ranks[rank], nil })
		var got []int
		for _, m := range absent {
			got = append(got, m.rank)
		}
		if !slices.Equal(got, tc.absent) || !errors.Is(err, tc.err) {
			t.Errorf("%s: %v, %v; want %v, %v", tc.name, got, err, tc.absent, tc.err)
		}
	}
	broken := errors.New("broken")
	if _, err := whoIsMissing(0, 2, in(1), standing{}, true, func(int) (standing, error) { return standing{}, broken }); !errors.Is(err, broken) {
		t.Errorf("the store fails: %v", err)
	}
}
