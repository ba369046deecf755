package core

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/plan"
)

func twoHosts() plan.Plan {
	return plan.Plan{Size: 4,
		Hosts: []plan.Host{{Host: hostfile.Host{Name: "f1"}, Ranks: []plan.Rank{{Rank: 0}, {Rank: 1}}},
			{Host: hostfile.Host{Name: "f2"}, Ranks: []plan.Rank{{Rank: 2}, {Rank: 3}}}}}
}

func TestRanksThatStayOutOfMPIAreNamedOnce(t *testing.T) {
	s := NewStartup(twoHosts(), 0)
	s.Entered([]int{0}, time.Second)
	s.Entered([]int{0, 3}, 3*time.Second)
	if note, late := s.Look(10 * time.Second); note != "" || late != nil {
		t.Errorf("after 9 s: %q, %v", note, late)
	}
	note, late := s.Look(11 * time.Second)
	want := "rank 0 on f1 has waited 10s in MPI_Init for rank 1 on f1, rank 2 on f2"
	check.That(t, note == want && late == nil, "after 10 s: %q, %v, want %q", note, late, want)
	note, late = s.Look(time.Hour)
	check.That(t, note == "" && late == nil, "later: %q, %v", note, late)
}

func TestStartupThatEndsIsNotReported(t *testing.T) {
	all := NewStartup(twoHosts(), time.Second)
	fenced := NewStartup(twoHosts(), time.Second)
	all.Entered([]int{0, 1, 2, 3}, 0)
	fenced.Entered([]int{0}, 0)
	fenced.Fenced("ring/1")
	fenced.Fenced("pmix/1")
	for _, s := range []*Startup{all, fenced, NewStartup(twoHosts(), time.Second)} {
		note, late := s.Look(time.Hour)
		check.That(t, note == "" && late == nil, "%q, %v", note, late)
	}
}

func TestLateRanksEndTheJob(t *testing.T) {
	s := NewStartup(twoHosts(), 5*time.Second)
	s.Entered([]int{0, 1}, time.Second)
	_, late := s.Look(6 * time.Second)
	must.That(t, late != nil, "nothing happens at the limit")
	c := New(twoHosts(), time.Second, TolerateNone)
	acts := c.Step(*late, 6*time.Second)
	check.That(t, len(acts) == 2, "actions %v", acts)
	for rank := range 4 {
		c.Step(RankExited{Host: rank / 2, Exit: Exit{
			Rank:    rank,
			Signal:  15,
			Stopped: true,
			At:      7 * time.Second,
		}}, 7*time.Second)
	}
	r := c.Result()
	var why *LateError
	check.That(t, r.Cause != nil && errors.As(r.Cause.Lost, &why) && r.Code() == CodeLaunch &&
		r.Cause.String() == "ranks 2-3 on f2 did not call MPI_Init within 5s after rank 0 on f1 (--start-timeout)",
		"the result is %v, code %d", r.Cause, r.Code())
}

// The others fail because a rank has left them in MPI_Init, in the ways of their libraries.
func TestRankThatEndsBeforeMPIIsTheCause(t *testing.T) {
	exit := RankExited{Host: 0, Exit: Exit{Rank: 1, At: time.Second}}
	lost := RankLost{wire.Lost{
		By:      1,
		Rank:    1,
		Cause:   "it ended",
		Awaited: true,
		Waiter:  2,
	}}
	for name, events := range map[string][]Event{"exit first": {exit, lost}, "exit last": {lost, exit}} {
		c := New(twoHosts(), time.Second, TolerateNone)
		acts := 0
		for _, e := range events {
			acts += len(c.Step(e, time.Second))
		}
		for _, rank := range []int{0, 2, 3} {
			c.Step(RankExited{Host: rank / 2, Exit: Exit{
				Rank:    rank,
				Signal:  13,
				Aborted: true,
				At:      900 * time.Millisecond,
			}}, 2*time.Second)
		}
		r := c.Result()
		check.That(t, acts == 2 && r.Cause != nil && r.Cause.Rank == 1 && r.Code() == 1 &&
			strings.Contains(r.Cause.String(), "exited with code 0 before MPI_Init, in which rank 2 waits for it"),
			"%s: %d actions, the cause is %v, code %d", name, acts, r.Cause, r.Code())
	}
}

// A rank that ends with a code of its own is no riddle, nor is one that the user stopped. A host
// that ends the job by a rank that runs is blamed: gorun would exit with 0 otherwise.
func TestAwaitedRankWithAnEndOfItsOwn(t *testing.T) {
	lost := RankLost{wire.Lost{By: 1, Rank: 1, Awaited: true}}
	stopped := RankExited{Exit: Exit{Rank: 1, Signal: 15, Stopped: true}}
	for want, events := range map[string][]Event{
		"":                   {Stop{Why: Interrupted}, lost, stopped},
		"exited with code 3": {lost, RankExited{Exit: Exit{Rank: 1, Code: 3}}},
		"host f1: it reported that rank 1 ended while others waited, but sent no exit status": {lost, stopped},
	} {
		c := New(twoHosts(), time.Second, TolerateNone)
		for _, e := range events {
			c.Step(e, 0)
		}
		r := c.Result()
		got := r.Cause
		check.That(t, r.Code() != 0 && (want == "" && got == nil || want != "" && got != nil &&
			strings.HasSuffix(got.String(), want)), "%+v: the cause is %v, code %d", events, got, r.Code())
	}
}
