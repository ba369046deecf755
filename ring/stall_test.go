package ring

import "testing"

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
