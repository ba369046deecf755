package core

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/plan"
)

// orders calls each with every ordering of every selection of up to most items.
func orders[T any](items []T, most int, each func([]T)) {
	var extend func(done, left []T)
	extend = func(done, left []T) {
		each(done)
		if len(done) == most {
			return
		}
		for i := range left {
			extend(append(slices.Clone(done), left[i]), slices.Delete(slices.Clone(left), i, i+1))
		}
	}
	extend(nil, items)
}

// Events of one tick give the documented code in any order: that of the stop request if it came
// before any failure, else that of the failure that was first on the hosts' clocks.
func TestEveryOrderInOneTick(t *testing.T) {
	type happening struct {
		name  string
		event Event
		at    time.Duration // when it failed; 0: it is no failure
		code  int
		stop  int
	}
	const now = 10 * time.Millisecond
	exit := func(host, rank int, at time.Duration, e Exit) RankExited {
		e.Rank = rank
		e.At = at
		return RankExited{host, e}
	}
	happenings := []happening{
		{name: "rank 0 exits 0", event: exit(0, 0, 1*time.Millisecond, Exit{})},
		{name: "rank 1 exits 3", event: exit(1, 1, 3*time.Millisecond, Exit{Code: 3}), at: 3 * time.Millisecond,
			code: 3},
		{name: "rank 2 exits 4", event: exit(1, 2, 2*time.Millisecond, Exit{Code: 4}), at: 2 * time.Millisecond,
			code: 4},
		{name: "rank 3 is killed", event: exit(2, 3, 4*time.Millisecond, Exit{Signal: 9}), at: 4 * time.Millisecond,
			code: 137},
		{name: "rank 4 is stopped", event: exit(3, 4, 1*time.Millisecond, Exit{Signal: 15, Stopped: true})},
		{name: "rank 5 has been told to abort", event: exit(3, 5, 1*time.Millisecond, Exit{Code: 5, Aborted: true})},
		{name: "host 4 is lost", event: HostLost{4, errors.New("gone")}, at: now, code: CodeLaunch},
		{name: "Ctrl-C", event: Stop{Why: Interrupted}, stop: 130},
		{name: "the time is up", event: Stop{Why: TimedOut}, stop: CodeTimeout},
		{name: "rank 1 is lost by rank 5", event: RankLost{wire.Lost{By: 5, Rank: 1}}},
	}
	tried := 0
	orders(happenings, 4, func(order []happening) {
		hosts := make([]hostfile.Host, 5)
		for i := range hosts {
			hosts[i] = hostfile.Host{Name: fmt.Sprint("h", i), Slots: 2}
		}
		plan := must.Get(plan.New(hosts, plan.Request{NP: 10}))(t)
		c := New(plan, time.Second, TolerateNone)
		want := 0
		first := time.Hour
		victim := 0
		names := []string{}
		stopping := false
		for _, h := range order {
			names = append(names, h.name)
			c.Step(h.event, now)
			if h.stop != 0 && !stopping {
				want = h.stop
				first = 0
			}
			if h.at > 0 && h.at < first && first != 0 {
				want = h.code
				first = h.at
			}
			aborted := h.name == "rank 5 has been told to abort"
			if aborted {
				victim = 5
			}
			stopping = stopping || h.stop != 0 || h.at > 0 || aborted
		}
		if want == 0 {
			want = victim
		}
		for host := range hosts {
			c.Step(HostDone{Host: host}, now)
		}
		if r := c.Result(); !c.finished || r.Code() != want {
			t.Errorf("%q: code %d, want %d; finished: %v", names, r.Code(), want, c.finished)
		}
		tried++
	})
	want := 1 + 10 + 10*9 + 10*9*8 + 10*9*8*7
	check.That(t, tried == want, "%d orders, want %d", tried, want)
}
