package core

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/plan"
)

// corePlan has ranks 0 and 1 on a, 2 and 3 on b, 4 on c.
func corePlan(t testing.TB) plan.Plan {
	t.Helper()
	plan := must.Get(plan.New([]hostfile.Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 2}, {Name: "c", Slots: 1}},
		plan.Request{}))(t)
	return plan
}

const grace = 5 * time.Second

// at is an event and the second at which it comes.
type at struct {
	second float64
	event  Event
}

func exit(host, rank, code int, second float64) at {
	return at{second, RankExited{host, Exit{Rank: rank, Code: code, At: time.Duration(second * float64(time.Second))}}}
}

// told returns the end of a rank that had been told to abort.
func told(host, rank, code int, second float64) at {
	e := exit(host, rank, code, second)
	told := e.event.(RankExited)
	told.Exit.Aborted = true
	return at{second, told}
}

func killed(host, rank, signal int, second float64) at {
	e := stopped(host, rank, signal, second).event.(RankExited)
	e.Exit.Stopped = false
	return at{second, e}
}

func stopped(host, rank, signal int, second float64) at {
	return at{second, RankExited{host, Exit{
		Rank:    rank,
		Signal:  signal,
		Stopped: true,
		At:      time.Duration(second * float64(time.Second)),
	}}}
}

func done(host int, second float64) at { return at{second, HostDone{Host: host}} }
func tick(second float64) at           { return at{second, Tick{}} }

// play steps a core through events and writes down what it does: "2s abort rank 1 on a".
func play(t testing.TB, allowed Tolerance, events []at) (*Machine, []string) {
	t.Helper()
	c := New(corePlan(t), grace, allowed)
	var did []string
	for _, e := range events {
		now := time.Duration(e.second * float64(time.Second))
		was := c.finished
		acts := c.Step(e.event, now)
		check.That(t, !was || acts == nil, "after the end: %v", acts)
		for _, act := range acts {
			switch act := act.(type) {
			case StopRanks:
				did = append(did, fmt.Sprintf("%v stop %v", now, act.Grace))
			case AbortRanks:
				did = append(did, fmt.Sprintf("%v abort rank %d on %s", now, act.Abort.Rank, act.Abort.Host))
			}
		}
		if c.finished && !was {
			did = append(did, fmt.Sprintf("%v finish", now))
		}
	}
	return c, did
}

func TestCore(t *testing.T) {
	left := func(by, rank int, second float64) at {
		return at{second, RankLost{wire.Lost{
			By:    by,
			Rank:  rank,
			Cause: "closed",
			Left:  true,
		}}}
	}
	// ended returns the end of rank 3 on b after a second.
	ended := func(code int, mpi MPIEnd, failed string) at {
		e := exit(1, 3, code, 1).event.(RankExited)
		e.Exit.MPI = mpi
		e.Exit.Failed = failed
		return at{1, e}
	}
	lost := func(by, rank int, second float64) at {
		return at{second, RankLost{wire.Lost{By: by, Rank: rank, Cause: "reset"}}}
	}
	gone := func(host int, second float64) at { return at{second, HostLost{host, errors.New("no word")}} }
	stop := func(why StopReason, now bool, second float64) at { return at{second, Stop{why, now}} }
	tests := []struct {
		name    string
		allowed Tolerance
		events  []at
		did     string // joined by "; "
		code    int
		cause   string
		result  func(Result) bool // more to check; may be nil
	}{
		{name: "all succeed",
			events: []at{exit(0, 0, 0, 1), exit(0, 1, 0, 1), exit(1, 2, 0, 1), exit(1, 3, 0, 1), exit(2, 4, 0, 1),
				done(0, 2), done(1, 2), tick(2.5), done(2, 3)},
			did: "3s finish", code: 0},
		{name: "a clean exit stops nobody",
			events: []at{exit(0, 0, 0, 1), tick(100)}, did: ""},
		{name: "a failing rank ends the job",
			events: []at{exit(1, 3, 7, 1), stopped(0, 0, 15, 1.2), stopped(0, 1, 15, 1.2), done(0, 1.3), done(1, 1.3),
				done(2, 1.4)},
			did: "1s abort rank 3 on b; 1s stop 5s; 1.4s finish", code: 7, cause: "rank 3 on b exited with code 7"},
		{name: "the first failure in time is the cause, whichever is heard first",
			events: []at{exit(1, 3, 7, 1), {1.5, RankExited{0, Exit{Rank: 0, Code: 9, At: 900 * time.Millisecond}}},
				done(0, 2), done(1, 2), done(2, 2)},
			did: "1s abort rank 3 on b; 1s stop 5s; 2s finish", code: 9, cause: "rank 0 on a exited with code 9"},
		{name: "an MPI that aborts has lost the rank that left it, which is seen to end a little later",
			events: []at{{1, RankExited{1, Exit{
				Rank: 3,
				MPI:  MPIAborted,
				Code: 14,
				At:   time.Second,
			}}}, {1.1, RankExited{0, Exit{Rank: 0, MPI: MPIUnfinished, At: 1010 * time.Millisecond}}}, done(0, 2),
				done(1, 2), done(2, 2)},
			did: "1s abort rank 3 on b; 1s stop 5s; 2s finish", code: 1,
			cause: "rank 0 on a ended after MPI_Init without MPI_Finalize"},
		{name: "a rank that crashes because of an abort is not the cause",
			events: []at{{1, RankExited{1, Exit{
				Rank: 3,
				MPI:  MPIAborted,
				Code: 14,
				At:   time.Second,
			}}}, {1.1, RankExited{0, Exit{Rank: 0, Signal: 13, At: 1010 * time.Millisecond}}}, done(0, 2), done(1, 2),
				done(2, 2)},
			did: "1s abort rank 3 on b; 1s stop 5s; 2s finish", code: 14, cause: "rank 3 on b called MPI_Abort(14)"},
		{name: "a rank that gorun stopped is not the cause",
			events: []at{stopped(0, 0, 15, 0.1), exit(1, 3, 7, 1), done(0, 2), done(1, 2), done(2, 2)},
			did:    "1s abort rank 3 on b; 1s stop 5s; 2s finish", code: 7, cause: "rank 3 on b exited with code 7"},
		{name: "a rank that lost another is its victim, though it ended first",
			events: []at{lost(4, 2, 0.9), exit(2, 4, 1, 1),
				{1.2, RankExited{1, Exit{Rank: 2, Signal: 9, At: 1100 * time.Millisecond}}}, done(0, 2), done(1, 2),
				done(2, 2)},
			did: "900ms abort rank 2 on b; 1s stop 5s; 2s finish", code: 137,
			cause: "rank 2 on b was killed by signal 9 (SIGKILL)"},
		{name: "a victim is the cause when there is no other",
			events: []at{lost(4, 2, 0.9), exit(2, 4, 3, 1), done(0, 2), done(1, 2), done(2, 2)},
			did:    "900ms abort rank 2 on b; 1s stop 5s; 2s finish", code: 3, cause: "rank 4 on c exited with code 3",
			result: func(r Result) bool { return r.Cause.Victim }},
		{name: "a loss alone stops nobody: ranks may handle it",
			events: []at{lost(0, 2, 1), lost(1, 2, 1.1), tick(60)}, did: "1s abort rank 2 on b"},
		{name: "an agent that says that it ends is the cause from then on, and awaited",
			events: []at{{1, HostFailing{1, errors.New("its guard is dead")}},
				{1.1, HostFailing{1, errors.New("again")}}, gone(2, 1.5), done(0, 2), gone(1, 3)},
			did: "1s abort rank -1 on b; 1s stop 5s; 3s finish", code: CodeLaunch,
			cause: "host b: its guard is dead"},
		{name: "an agent that says that it ends, and does not, is abandoned like another",
			events: []at{{1, HostFailing{1, errors.New("its guard is dead")}}, done(0, 2), done(2, 2), tick(8.9),
				tick(9)},
			did: "1s abort rank -1 on b; 1s stop 5s; 9s finish", code: CodeLaunch,
			cause: "host b: its guard is dead"},
		{name: "a lost host ends the job",
			events: []at{gone(1, 2), stopped(0, 0, 15, 2.1), done(0, 2.5), done(2, 3)},
			did:    "2s abort rank -1 on b; 2s stop 5s; 3s finish", code: CodeLaunch, cause: "host b: no word",
			result: func(r Result) bool {
				return len(r.Lost) == 1 && r.Lost[0].Host == "b" && len(r.Unconfirmed) == 0
			}},
		{name: "the last host is lost",
			events: []at{done(0, 1), done(2, 1), gone(1, 2)},
			did:    "2s abort rank -1 on b; 2s stop 5s; 2s finish", code: CodeLaunch, cause: "host b: no word"},
		{name: "a host that is done cannot be lost",
			events: []at{done(0, 1), gone(0, 1.1), done(1, 2), done(2, 2)}, did: "2s finish", code: 0},
		{name: "a host is lost once",
			events: []at{gone(1, 2), gone(1, 3), done(0, 4), done(2, 4)},
			did:    "2s abort rank -1 on b; 2s stop 5s; 4s finish", code: CodeLaunch, cause: "host b: no word",
			result: func(r Result) bool { return len(r.Lost) == 1 }},
		{name: "a rank that failed before its host was lost is the cause",
			events: []at{exit(1, 2, 4, 1), gone(1, 2), done(0, 3), done(2, 3)},
			did:    "1s abort rank 2 on b; 1s stop 5s; 3s finish", code: 4, cause: "rank 2 on b exited with code 4"},
		{name: "a lost host's victims are not the cause",
			events: []at{lost(0, 2, 1), exit(0, 0, 1, 1.1), gone(1, 6), done(0, 7), done(2, 7)},
			did:    "1s abort rank 2 on b; 1.1s stop 5s; 7s finish", code: CodeLaunch, cause: "host b: no word"},
		{name: "a rank that aborts because others lost a rank is a victim, too",
			events: []at{lost(0, 2, 1), told(0, 1, 1, 1.1), exit(0, 0, 1, 1.2), gone(1, 6), done(0, 7), done(2, 7)},
			did:    "1s abort rank 2 on b; 1.1s stop 5s; 7s finish", code: CodeLaunch, cause: "host b: no word"},
		{name: "a lost rank whose end is reported late is the cause all the same",
			events: []at{lost(0, 2, 1), told(0, 1, 1, 1.1), exit(1, 2, 9, 1.2), done(0, 3), done(1, 3), done(2, 3)},
			did:    "1s abort rank 2 on b; 1.1s stop 5s; 3s finish", code: 9, cause: "rank 2 on b exited with code 9"},
		{name: "a rank that requests the abort is the cause, not ranks that obey faster",
			events: []at{lost(2, 2, 1), told(0, 0, 1, 1.1), told(1, 2, 6, 1.3), done(0, 3), done(1, 3), done(2, 3)},
			did:    "1s abort rank 2 on b; 1.3s stop 5s; 3s finish", code: 6, cause: "rank 2 on b exited with code 6"},
		{name: "a rank that leaves and then fails is the cause, not ranks that fail of it and end first",
			events: []at{left(0, 2, 1), left(1, 2, 1), exit(0, 0, 1, 1.1), told(0, 1, 1, 1.2), told(1, 2, 6, 1.3),
				done(0, 3), done(1, 3), done(2, 3)},
			did: "1.1s abort rank 2 on b; 1.3s stop 5s; 3s finish", code: 6,
			cause: "rank 2 on b exited with code 6"},
		{name: "it is the cause, too, where it lost those that had left because of it, and by way of others",
			events: []at{left(0, 2, 1), left(1, 0, 1.05), left(2, 1, 1.1), exit(0, 1, 1, 1.1), told(1, 2, 6, 1.3),
				done(0, 3), done(1, 3), done(2, 3)},
			did: "1.1s abort rank 2 on b; 1.3s stop 5s; 3s finish", code: 6,
			cause: "rank 2 on b exited with code 6"},
		{name: "the stop waits so long for a rank that has left",
			events: []at{left(0, 2, 1), exit(0, 0, 1, 1.1), told(0, 1, 1, 1.2), tick(6), tick(7),
				stopped(1, 2, 15, 7.1), done(0, 8), done(1, 8), done(2, 8)},
			did: "1.1s abort rank 2 on b; 7s stop 5s; 8s finish", code: 1, cause: "rank 0 on a exited with code 1",
			result: func(r Result) bool { return r.Cause.Victim }},
		{name: "it does not wait where another rank fails by itself",
			events: []at{left(0, 2, 1), exit(0, 0, 1, 1.1), exit(2, 4, 5, 1.2), stopped(1, 2, 15, 1.3), done(0, 3),
				done(1, 3), done(2, 3)},
			did: "1.1s abort rank 2 on b; 1.2s stop 5s; 3s finish", code: 5,
			cause: "rank 4 on c exited with code 5"},
		{name: "a rank that leaves and ends well lets the others be stopped",
			events: []at{left(0, 2, 1), exit(0, 0, 1, 1.1), exit(1, 2, 0, 1.3), done(0, 3), done(1, 3), done(2, 3)},
			did:    "1.1s abort rank 2 on b; 1.3s stop 5s; 3s finish", code: 1, cause: "rank 0 on a exited with code 1",
			result: func(r Result) bool { return r.Cause.Victim }},
		{name: "who goes on after a rank has left is no victim of it any more",
			events: []at{left(0, 2, 1), exit(0, 0, 1, 62), done(0, 63), done(1, 63), done(2, 63)},
			did:    "1m2s abort rank 0 on a; 1m2s stop 5s; 1m3s finish", code: 1,
			cause:  "rank 0 on a exited with code 1",
			result: func(r Result) bool { return !r.Cause.Victim }},
		{name: "that a rank has left ends nothing",
			events: []at{left(0, 2, 1), left(1, 2, 1), done(0, 3), done(1, 3), done(2, 3)}, did: "3s finish"},
		{name: "a rank that fails by itself after an unrelated loss is the cause",
			events: []at{lost(0, 2, 1), told(0, 0, 1, 1.1), exit(2, 4, 5, 1.2), done(0, 3), done(1, 3), done(2, 3)},
			did:    "1s abort rank 2 on b; 1.1s stop 5s; 3s finish", code: 5, cause: "rank 4 on c exited with code 5"},
		{name: "a silent host, whose ranks others lost, is the cause",
			events: []at{lost(0, 2, 1), exit(0, 0, 1, 1.1), told(0, 1, 1, 1.1), done(0, 2), done(2, 2), tick(9.2)},
			did:    "1s abort rank 2 on b; 1.1s stop 5s; 9.2s finish", code: CodeLaunch,
			cause: "host b: no word from it since other ranks lost their connections to its ranks"},
		{name: "Ctrl-C",
			events: []at{stop(Interrupted, false, 1), stopped(0, 0, 15, 1.1), done(0, 2), done(1, 2), done(2, 2)},
			did:    "1s stop 5s; 2s finish", code: 130},
		{name: "Ctrl-C, and a rank's failure because of it",
			events: []at{stop(Interrupted, false, 1), exit(0, 0, 1, 1.1), done(0, 2), done(1, 2), done(2, 2)},
			did:    "1s stop 5s; 1.1s abort rank 0 on a; 2s finish", code: 130,
			cause: "rank 0 on a exited with code 1"},
		{name: "Ctrl-C twice kills",
			events: []at{stop(Interrupted, false, 1), stop(Interrupted, true, 2), tick(4.9), tick(5)},
			did:    "1s stop 5s; 2s stop 0s; 5s finish", code: 130,
			result: func(r Result) bool { return strings.Join(r.Unconfirmed, " ") == "a b c" }},
		{name: "a second stop request can only shorten the grace",
			events: []at{stop(Terminated, true, 1), stop(Interrupted, false, 1.1), tick(4)},
			did:    "1s stop 0s; 4s finish", code: 143},
		{name: "Ctrl-C while a failed job is being stopped leaves the cause alone",
			events: []at{exit(0, 1, 7, 1), stop(Interrupted, true, 2), done(0, 3), done(1, 3), done(2, 3)},
			did:    "1s abort rank 1 on a; 1s stop 5s; 2s stop 0s; 3s finish", code: 7,
			cause: "rank 1 on a exited with code 7"},
		{name: "a time limit",
			events: []at{stop(TimedOut, false, 10), done(0, 11), done(1, 11), done(2, 11)},
			did:    "10s stop 5s; 11s finish", code: CodeTimeout},
		{name: "the output has no reader",
			events: []at{stop(OutputClosed, false, 1), done(0, 2), done(1, 2), done(2, 2)},
			did:    "1s stop 5s; 2s finish", code: 141},
		{name: "agents that never answer are abandoned after the grace and a margin",
			events: []at{exit(0, 0, 2, 1), done(0, 2), tick(8.9), tick(9), tick(10)},
			did:    "1s abort rank 0 on a; 1s stop 5s; 9s finish", code: 2, cause: "rank 0 on a exited with code 2",
			result: func(r Result) bool { return strings.Join(r.Unconfirmed, " ") == "b c" }},
		{name: "a suspended launcher reads before it abandons hosts",
			events: []at{exit(0, 0, 2, 1), {60, Woke{58 * time.Second}}, tick(60), done(0, 60.1), done(1, 60.1),
				done(2, 60.1)}, did: "1s abort rank 0 on a; 1s stop 5s; 1m0.1s finish", code: 2,
			cause: "rank 0 on a exited with code 2", result: func(r Result) bool { return len(r.Unconfirmed) == 0 }},
		{name: "a suspended launcher waits no longer than that",
			events: []at{exit(0, 0, 2, 1), {60, Woke{58 * time.Second}}, tick(66.9), tick(67)},
			did:    "1s abort rank 0 on a; 1s stop 5s; 1m7s finish", code: 2, cause: "rank 0 on a exited with code 2"},
		{name: "a code that is allowed stops nobody, and fails the job", allowed: TolerateCodes,
			events: []at{exit(1, 3, 7, 1), exit(0, 0, 0, 5), done(0, 6), done(1, 6), done(2, 6)},
			did:    "6s finish", code: 7, cause: "rank 3 on b exited with code 7"},
		{name: "a signal is no code", allowed: TolerateCodes,
			events: []at{killed(1, 3, 9, 1), done(0, 2), done(1, 2), done(2, 2)},
			did:    "1s abort rank 3 on b; 1s stop 5s; 2s finish", code: 137,
			cause: "rank 3 on b was killed by signal 9 (SIGKILL)"},
		{name: "a signal that is allowed stops nobody", allowed: TolerateAll,
			events: []at{killed(1, 3, 9, 1), exit(0, 0, 3, 2), done(0, 2), done(1, 2), done(2, 2)},
			did:    "2s finish", code: 137, cause: "rank 3 on b was killed by signal 9 (SIGKILL)"},
		{name: "MPI does not go on without a rank", allowed: TolerateAll,
			events: []at{ended(0, MPIUnfinished, ""), done(0, 2), done(1, 2), done(2, 2)},
			did:    "1s abort rank 3 on b; 1s stop 5s; 2s finish", code: 1,
			cause: "rank 3 on b ended after MPI_Init without MPI_Finalize"},
		{name: "no rank goes on without one that did not start", allowed: TolerateAll,
			events: []at{ended(127, "", "no such file"), done(0, 2), done(1, 2), done(2, 2)},
			did:    "1s abort rank 3 on b; 1s stop 5s; 2s finish", code: 127,
			cause: "rank 3 on b did not start: no such file"},
		{name: "no rank goes on without a host", allowed: TolerateAll,
			events: []at{gone(1, 1), done(0, 2), done(2, 2)}, did: "1s abort rank -1 on b; 1s stop 5s; 2s finish",
			code: CodeLaunch, cause: "host b: no word"},
		{name: "nobody goes on without a rank that lost another", allowed: TolerateAll,
			events: []at{exit(1, 3, 7, 1), lost(0, 3, 1.1), told(0, 0, 1, 1.2), done(0, 2), done(1, 2), done(2, 2)},
			did:    "1.1s abort rank 3 on b; 1.2s stop 5s; 2s finish", code: 7,
			cause: "rank 3 on b exited with code 7"},
		{name: "nothing happens after the end",
			events: []at{done(0, 1), done(1, 1), done(2, 1), exit(0, 0, 7, 2), gone(1, 2), stop(Interrupted, true, 2),
				tick(3600)}, did: "1s finish", code: 0},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			c, did := play(t, tc.allowed, tc.events)
			check.Equal(t, strings.Join(did, "; "), tc.did, "did")
			if !c.finished {
				return
			}
			r := c.Result()
			check.Equal(t, r.Code(), tc.code, "code")
			cause := ""
			if r.Cause != nil {
				cause = r.Cause.String()
			}
			check.Equal(t, cause, tc.cause, "cause")
			check.That(t, tc.result == nil || tc.result(r), "result %+v", r)
		})
	}
}

func TestRanksGetTheCauseOfAnAbort(t *testing.T) {
	for _, tc := range []struct {
		event Event
		want  wire.Abort
	}{
		{RankExited{1, Exit{Rank: 3, Signal: 11, Core: true}},
			wire.Abort{Rank: 3, Host: "b", Cause: "was killed by signal 11 (SIGSEGV), core dumped"}},
		{RankExited{0, Exit{Rank: 0, Code: 127, Failed: "no such file"}},
			wire.Abort{Rank: 0, Host: "a", Cause: "did not start: no such file"}},
		{RankLost{wire.Lost{By: 0, Rank: 4, Cause: "reset"}},
			wire.Abort{Rank: 4, Host: "c", Cause: "rank 0 lost it: reset"}},
		{HostLost{2, errors.New("no route")}, wire.Abort{Rank: -1, Host: "c", Cause: "no route"}},
	} {
		acts := New(corePlan(t), grace, TolerateNone).Step(tc.event, time.Second)
		check.That(t, len(acts) != 0 && reflect.DeepEqual(acts[0], AbortRanks{tc.want}),
			"%+v: %+v, want %+v first", tc.event, acts, tc.want)
	}
}

// Finding the cause must stay linear in the number of ranks.
func TestLostWithAsksForEachRankOnce(t *testing.T) {
	var hosts []hostfile.Host
	for i := range 50 {
		hosts = append(hosts, hostfile.Host{Name: fmt.Sprint("h", i), Slots: 2})
	}
	plan := must.Get(plan.New(hosts, plan.Request{}))(t)
	c := New(plan, grace, TolerateNone)
	asked := 0
	hostOf := c.hostOf
	c.hostOf = func(rank int) string {
		asked++
		return hostOf(rank)
	}
	for rank := range plan.Size {
		c.victims[rank] = loss{rank: (rank + 1) % plan.Size}
		c.hosts[rank/2].done = true
	}
	name := c.lostWith()
	check.That(t, name == "" && asked <= plan.Size, "%q, and %d lookups for %d ranks", name, asked, plan.Size)
	c.hosts[7].done = false
	check.Equal(t, c.lostWith(), "h7")
}

// A hostile host may report tens of thousands of ranks that it has spawned, as many as may abort,
// before its job ends.
func TestManyAbortsTakeLittleTime(t *testing.T) {
	const spawned = 1 << 16
	c := New(corePlan(t).WithSpawn(16, 0), grace, TolerateNone)
	for i := range spawned {
		c.Step(RankExited{0, Exit{Rank: 5 + 3*i, MPI: MPIAborted, At: time.Second}}, time.Second)
	}
	c.Step(RankExited{1, Exit{Rank: 2, MPI: MPIUnfinished, At: 2*time.Second - 1}}, 2*time.Second)
	start := time.Now()
	r := c.Result()
	took := time.Since(start)
	check.That(t, took < 5*time.Second, "%v for %d ranks", took, spawned)
	check.That(t, r.Cause.Rank == 2 && !r.Cause.Victim, "%v is the cause, before which the others aborted", r.Cause)
}

// A hostile host may report, of each of the ranks that it may spawn, that it lost another one of
// them, in a chain or a circle.
func TestManyLossesTakeLittleTime(t *testing.T) {
	const spawned = 1 << 16
	for name, last := range map[string]int{"chain": spawned, "circle": 1} {
		v := victims{}
		start := time.Now()
		v.add(wire.Lost{By: spawned - 1, Rank: last}, 0)
		for rank := 1; rank < spawned-1; rank++ {
			v.add(wire.Lost{By: rank, Rank: rank + 1, Left: true}, 0)
		}
		for rank := 1; rank < spawned; rank++ {
			v.add(wire.Lost{By: -rank, Rank: rank, Left: true}, 0)
		}
		took := time.Since(start)
		check.That(t, took < 5*time.Second, "%s: %v for %d losses", name, took, len(v))
		check.That(t, name != "chain" || v.origin(1) == spawned, "%s: rank %d was lost first", name, v.origin(1))
	}
}
