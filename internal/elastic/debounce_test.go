package elastic

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// TestDebouncer polls a script whose output is left of each "=" ("!" is a failure, "-" no host).
// Right of it is the list after that poll.
func TestDebouncer(t *testing.T) {
	for _, polls := range []string{
		"a:1 b:2 = a:1 b:2 | b:2 a:1 = a:1 b:2",                                 // known hosts keep their place
		"a:1 = a:1 | c:1 a:1 = a:1 | c:1 a:1 = a:1 c:1",                         // two equal polls add
		"a:1 b:1 = a:1 b:1 | b:1 = a:1 b:1 | b:1 = b:1",                         // and remove
		"a:1 b:1 = a:1 b:1 | b:1 = a:1 b:1 | a:1 b:1 = a:1 b:1 | b:1 = a:1 b:1", // in a row
		"a:1 = a:1 | a:2 = a:1 | a:3 = a:1 | a:3 = a:3",                         // and the same
		// each host is confirmed by itself
		"a:1 = a:1 | a:1 b:1 = a:1 | a:1 b:1 c:1 = a:1 b:1 | a:1 b:1 c:1 = a:1 b:1 c:1",
		"a:1 = a:1 | - = a:1 | - = a:1 | - = - | a:1 = - | a:1 = a:1",   // an empty list
		"a:1 = a:1 | - = a:1 | - = a:1 | a:1 = a:1 | - = a:1 | - = a:1", // three in a row
		"a:1 = a:1 | b:1 = a:1 | ! = a:1 | b:1 = b:1",                   // a failure confirms nothing
		"- = - | a:1 = - | a:1 = a:1",
		// one that comes back is new
		"a:1 b:1 = a:1 b:1 | b:1 c:1 = a:1 b:1 | b:1 c:1 = b:1 c:1 | a:1 b:1 c:1 = b:1 c:1 | a:1 b:1 c:1 = b:1 c:1 a:1",
	} {
		var s Debouncer
		before := "nothing yet"
		for i, poll := range strings.Split(polls, " | ") {
			says, want, _ := strings.Cut(poll, " = ")
			var hosts []hostfile.Host
			var err error
			if says == "!" {
				err = errors.New("no")
			} else if says != "-" {
				hosts = must.Get(Parse("s", []byte(strings.ReplaceAll(says, " ", "\n")), 1))(t)
			}
			polled := s.Polled(hosts, err, 0)
			got := ""
			for _, h := range polled.Hosts {
				got += fmt.Sprintf(" %s:%d", h.Name, h.Slots)
			}
			if got == "" {
				got = " -"
			}
			if got = got[1:]; got != want || polled.Fatal != nil {
				t.Errorf("%s\npoll %d: %s, %v\nwant %s", polls, i, got, polled.Fatal, want)
			}
			check.Equal(t, polled.Changed, (got != before), polls, "poll", i, "changed")
			before = got
		}
	}
}

func TestAddedHostsAreConfirmedSoon(t *testing.T) {
	for _, tc := range []struct {
		says string
		soon bool
	}{
		{"a:1 b:2", false}, {"a:1 b:2 c:1", true}, {"a:2 b:2", true}, {"a:2 b:2 c:1", true},
		{"a:1", false}, {"a:1 c:1", false}, {"a:1 b:1", false}, {"a:2 b:1", false}, {"", false},
	} {
		var s Debouncer
		poll := func(says string) Debounced {
			hosts := must.Get(Parse("s", []byte(strings.ReplaceAll(says, " ", "\n")), 1))(t)
			return s.Polled(hosts, nil, time.Minute)
		}
		poll("a:1 b:2")
		want := pollEvery
		if tc.soon {
			want = pollAgain
		}
		check.Equal(t, poll(tc.says).Next-time.Minute, want, tc.says, "polled again after")
		got := poll(tc.says).Next - time.Minute
		check.That(t, got == pollEvery, "%q: polled again after %v, though confirmed or empty", tc.says, got)
	}
}

func TestFailedPollsKeepTheList(t *testing.T) {
	no := errors.New("no")
	var s Debouncer
	if polled := s.Polled(nil, no, 0); !errors.Is(polled.Fatal, no) {
		t.Errorf("the first failure is %+v", polled)
	}
	s.Polled([]hostfile.Host{{Name: "a", Slots: 1}}, nil, 0)
	for i, want := range []int{2, 4, 8, 16, 30, 30} {
		polled := s.Polled(nil, no, time.Minute)
		check.That(t, polled.Fatal == nil && len(polled.Hosts) == 1 &&
			polled.Next == time.Minute+time.Duration(want)*time.Second && (polled.Warning != "") == (i == 0),
			"failure %d: %+v", i, polled)
	}
	if polled := s.Polled(nil, nil, 0); polled.Next != pollEvery || polled.Warning == "" {
		t.Errorf("after failures: %+v", polled)
	}
}
