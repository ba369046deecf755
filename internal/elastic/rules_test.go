package elastic

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestFirstEpochHasNPRanks(t *testing.T) {
	p := newPlay(t, Config{NP: 3, Min: 1, Max: 4}, "a:2")
	p.expect("nothing")
	p.hosts("a:2,b:3").expect("start a0 as 0/3; start a1 as 1/3; start b0 as 2/3")
	p.ready("a0", "b0").expect("nothing")
	p.ready("a1").expect("epoch 1: a0 a1 b0")
	p.join().expect("start b1 as 3/4") // and then it grows
}

func TestSurvivorsContinueAndTheSlotIsRefilled(t *testing.T) {
	p := begun(t, Config{NP: 4, Min: 2}, "a:2,b:2")
	p.exit(1, "a0").expect("interrupt")
	p.park("a1", "b0").park("b0").expect("nothing") // asked twice
	p.park("b1").expect("epoch 2: a1 b0 b1")
	m := p.plan.Members[0]
	check.That(t, m.Local == 1 && m.LocalRank == 0 && m.LocalSize == 1 && m.CrossRank == 0 && m.CrossSize == 2,
		"a1 is %+v", m)
	p.join().expect("start a0 as 2/4")
	p.ready("a0").expect("interrupt")
	p.park("a1", "b0", "b1").expect("epoch 3: b0 b1 a0 a1")
	check.Equal(t, len(p.d.resets), 1, "resets, want 1: the slot was only refilled")
	p.join().exit(0).expect("end 0")
}

func TestGrowthStartsNewcomersFirst(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 2, Max: 3}, "a:2")
	p.hosts("a:2,b:4").expect("start b0 as 2/3")
	p.wait(20 * time.Second).expect("nothing")
	p.exit(1, "b0").expect("start b0 as 2/3") // its failure disturbs no other rank
	p.ready("b0").expect("interrupt")
	p.park("a0", "a1").expect("epoch 3: a0 a1 b0")
}

func TestGrowthIsAbandonedWithoutACommit(t *testing.T) {
	p := begun(t, Config{NP: 1, Max: 2, Call: time.Minute}, "a:2")
	p.acts = nil
	p.ready("a1").wait(61 * time.Second).expect("interrupt; stop a1")
	p.exit(143, "a1").wait(61 * time.Second).expect("start a1 as 1/2")
}

func TestRankZeroIsTheMostSenior(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 1}, "a:1,b:1")
	p.exit(1, "a0").park("b0").join().ready("a0").expect("interrupt; epoch 2: b0; start a0 as 1/2; interrupt")
	p.park("b0").join().expect("epoch 3: b0 a0")
	p.step(HostLost{"b", errors.New("gone")}).step(HostFenced{"b"})
	p.park("a0").expect("fence b; interrupt; epoch 4: a0")
}

func TestRemovedHost(t *testing.T) {
	p := begun(t, Config{NP: 4, Min: 2, Max: 4}, "a:2,b:2")
	p.hosts("b:2").expect("interrupt")
	p.park("a0", "b0", "b1").expect("nothing")
	p.park("a1").expect("stop a0; stop a1; epoch 2: b0 b1")
	p.exit(143, "a0", "a1").join().hosts("b:2,a:2").expect("nothing") // it is set aside
	p.wait(10 * time.Second).expect("start a0 as 2/4; start a1 as 3/4")
}

func TestOwnHostStays(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 1, Own: "a"}, "a:1,b:1")
	p.step(Hosts{[]hostfile.Host{{Name: "b", Slots: 1}}})
	n, ok := p.acts[0].(Note)
	check.That(t, ok && n.Kind == NoteRefused, "got %+v", p.acts)
	p.expect("nothing")
	p.hosts("").expect("interrupt") // b may go
}

func TestLostHostIsFencedBeforeTheNextEpoch(t *testing.T) {
	for _, told := range []bool{true, false} {
		p := begun(t, Config{NP: 2, Min: 1}, "a:1,b:1")
		p.step(HostLost{"b", errors.New("silent")}).park("a0").expect("fence b; interrupt")
		p.wait(11 * time.Second).expect("nothing")
		if told {
			p.step(HostFenced{"b"})
		} else {
			p.wait(time.Second)
		}
		p.expect("epoch 2: a0")
		p.join().wait(time.Minute).expect("start b0 as 1/2")
	}
}

func TestTooFewRanksEndTheJobWithTheFailuresCode(t *testing.T) {
	p := begun(t, Config{
		NP:       2,
		Min:      2,
		Timeout:  30 * time.Second,
		Budget:   1,
		Cooldown: [2]time.Duration{time.Hour, time.Hour},
	}, "a:1,b:1")
	p.exit(7, "b0").park("a0").expect("interrupt; start b0 as 1/2")
	p.exit(9, "b0").expect("nothing") // b is set aside
	p.wait(29 * time.Second).expect("nothing")
	p.wait(time.Second).expect("stop a0")
	p.exit(143, "a0").expect("end 7")
}

func TestJobWaitsForRemovedHost(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 2}, "a:1,b:1")
	p.hosts("a:1").park().expect("interrupt; stop b0")
	p.exit(143, "b0").wait(5 * time.Minute).hosts("a:1,b:1").expect("start b0 as 1/2")
	p.ready("b0").expect("epoch 2: a0 b0")
}

func TestLostStateEndsOrRestartsTheJob(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 1}, "a:2")
	p.exit(5, "a0").exit(6, "a1").expect("interrupt; end 5")
	check.That(t, strings.Contains(p.end.Hint, "start the job again, from its last checkpoint"), "hint %q", p.end.Hint)
	p = begun(t, Config{NP: 2, Min: 1, StartOver: true}, "a:2")
	p.exit(5, "a0").exit(6, "a1").expect("interrupt; start a0 as 0/2; start a1 as 1/2")
}

// Only failures count as resets, not growth.
func TestTogetherRestartsAllProcesses(t *testing.T) {
	p := begun(t, Config{
		NP:         2,
		Min:        1,
		Together:   true,
		ResetLimit: 2,
	}, "a:1,b:1")
	p.exit(5, "b0").expect("stop a0")
	p.exit(143, "a0").expect("start a0 as 0/2; start b0 as 1/2")
	p.ready().join().expect("epoch 2: a0 b0")
	p.hosts("a:1,b:1,c:1").expect("stop a0; stop b0")
	p.exit(143, "a0", "b0").expect("start a0 as 0/3; start b0 as 1/3; start c0 as 2/3")
	p.ready().join().expect("epoch 3: a0 b0 c0")
	p.exit(6, "c0").exit(143, "a0", "b0").ready().join()
	p.expect("stop a0; stop b0; start a0 as 0/3; start b0 as 1/3; start c0 as 2/3; epoch 4: a0 b0 c0")
	p.exit(7, "c0").exit(143, "a0", "b0").expect("stop a0; stop b0; end 7")
}

func TestRanksUnawareOfEpochsRunAsInAnyJob(t *testing.T) {
	unaware := func(hosts string) *play {
		p := newPlay(t, Config{NP: 2, Min: 1}, hosts)
		p.each(nil, func(q Process) { p.step(Spawned{q}) })
		p.expect("start a0 as 0/2; start a1 as 1/2")
		p.wait(UnawareTime - time.Second).expect("nothing")
		p.wait(time.Second).expect("epoch 1: a0 a1")
		return p
	}
	p := unaware("a:2")
	p.hosts("a:2,b:1").wait(time.Minute).expect("nothing")
	p.ready("a1").join("a1").expect("nothing") // it asks late
	p.ready("a0").join("a0").expect("start b0 as 2/3")

	p = unaware("a:3")
	p.exit(4, "a1").expect("stop a0")
	p.exit(143, "a0").expect("end 4")
}

func TestFailureWhileForming(t *testing.T) {
	p := begun(t, Config{NP: 3, Min: 3, Max: 3}, "a:2,b:1")
	p.exit(1, "b0").park("a0", "a1").expect("interrupt; start b0 as 2/3")
	p.exit(1, "a1").expect("stop b0") // a survivor: the newcomer's numbers are no longer valid
	p.exit(143, "b0").expect("start a1 as 1/3; start b0 as 2/3")
	p.ready().expect("epoch 3: a0 a1 b0")
	p.exit(1, "b0") // before the others have joined
	p.park().expect("interrupt; start b0 as 2/3")
	p.ready().join().expect("epoch 4: a0 a1 b0")
}

func TestHungProcessesAreStopped(t *testing.T) {
	p := newPlay(t, Config{NP: 2, Min: 1}, "a:2")
	p.ready("a0").expect("")
	p.wait(2 * time.Minute).expect("stop a1; stop a0") // a1 was never ready
	p.exit(143).expect("start a0 as 0/2; start a1 as 1/2")
	p.ready().join("a0").wait(time.Minute).expect("epoch 2: a0 a1; abort; interrupt") // it never joined
	p.park("a0").wait(time.Minute).expect("stop a1")
	p.exit(143, "a1").join().expect("start a1 as 1/2") // a0 continues without state, because no rank has any
}

// Ranks that wait for one that does not take part are not late themselves, whatever that one says.
func TestRanksThatWaitAreNotLate(t *testing.T) {
	for _, lies := range []bool{false, true} {
		p := begun(t, Config{NP: 2, Min: 1}, "a:2")
		p.hosts("a:2,b:1").ready("b0").park("a0", "a1").expect("start b0 as 2/3; interrupt; epoch 2: a0 a1 b0")
		if lies {
			p.join("b0")
		}
		p.wait(time.Minute).expect("abort; interrupt")
		p.park("a0", "a1").wait(time.Minute).expect("stop b0")
		p.exit(143, "b0").expect("epoch 3: a0 a1")
	}

	p := begun(t, Config{NP: 2, Min: 1, Max: 2}, "a:1,b:1")
	p.park("b0").expect("interrupt") // and keeps its connections, so that a0 waits for it
	p.wait(30 * time.Second).expect("abort")
	p.park("a0").expect("epoch 2: a0 b0")
}

// A host that asks for epochs in the name of a program that knows of none does not go on alone, as
// a job that would then succeed.
func TestRanksThatKnowNoEpochsAreNotLate(t *testing.T) {
	p := newPlay(t, Config{NP: 2, Min: 1}, "a:1,b:1")
	p.each(nil, func(q Process) { p.step(Spawned{q}) })
	p.wait(UnawareTime).expect("start a0 as 0/2; start b0 as 1/2; epoch 1: a0 b0")
	p.ready("b0").park("b0").wait(9 * time.Minute).expect("interrupt; abort")
	p.wait(time.Minute).expect("stop a0; stop b0")
	p.exit(143)
	named := strings.HasSuffix(p.end.Cause, "and rank 1 on b asked for another")
	check.That(t, p.end.Code == CodeNoRank && named, "%+v", p.end)
}

func TestProcessesThatDoNotEndLoseTheirHost(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 1, Max: 2}, "a:1,b:1")
	p.exit(1, "a0")
	p.wait(time.Minute).expect("interrupt; abort; stop b0") // b0 never asks for another epoch, and ignores the stop
	p.wait(8 * time.Second).expect("fence b")
	p.wait(12 * time.Second).expect("end 1")
}

func TestHostOverItsBudgetRests(t *testing.T) {
	p := begun(t, Config{NP: 3, Min: 1, Max: 3}, "a:1,b:2")
	fail := func() {
		p.wait(time.Minute).exit(1, "b1").park("a0", "b0").join()
	}
	for range 3 {
		fail()
		p.ready("b1").park("a0", "b0").join().expect("")
	}
	fail()
	p.expect("interrupt; epoch 8: a0 b0") // b0 works, and stays
	p.wait(9 * time.Second).expect("nothing")
	p.wait(time.Second).expect("start b1 as 2/3")
}

func TestRepeatedEarlyFailureEndsTheJob(t *testing.T) {
	p := newPlay(t, Config{NP: 2, Min: 1, Max: 2}, "a:2")
	for range 3 {
		p.ready("a0").exit(4, "a1").exit(143, "a0")
	}
	p.expect("start a0 as 0/2; start a1 as 1/2; stop a0; start a0 as 0/2; start a1 as 1/2; stop a0; start a0 as 0/2; " +
		"start a1 as 1/2; stop a0; end 4")
}

func TestFailingNewHostDoesNotEndAWorkingJob(t *testing.T) {
	p := begun(t, Config{NP: 1, Min: 1, Max: 2}, "a:1")
	p.hosts("a:1,b:1")
	for range 20 {
		p.wait(5*time.Second).exit(127, "b0")
	}
	check.That(t, p.end == nil && p.d.host("b").asides != 0,
		"end %v, b was set aside %d times", p.end, p.d.host("b").asides)
}

func TestResetLimit(t *testing.T) {
	for _, window := range []time.Duration{0, time.Hour} {
		p := begun(t, Config{
			NP:          1,
			Min:         1,
			Max:         3,
			ResetLimit:  1,
			ResetWindow: window,
		}, "a:1")
		p.hosts("a:2").ready("a1").park("a0").join().expect("start a1 as 1/2; interrupt; epoch 2: a0 a1")
		p.hosts("a:3").expect("nothing") // growth is a reset too
		p.wait(time.Hour).exit(3, "a1").park("a0")
		if window > 0 {
			p.expect("start a2 as 2/3; stop a2; interrupt; epoch 4: a0")
			continue
		}
		p.expect("interrupt; stop a0")
		p.exit(143, "a0").expect("end 3")
	}
}

func TestNoEpochBeginsOnceARankHasFinished(t *testing.T) {
	for _, tt := range []struct {
		enough bool
		then   func(p *play)
		want   string
	}{
		{false, func(p *play) { p.exit(0, "a1") }, "end 0"},
		{false, func(p *play) { p.wait(time.Hour); p.exit(0, "a1") }, "end 0"}, // there is no deadline
		{false, func(p *play) { p.exit(3, "a1") }, "end 3"},
		{false, func(p *play) { p.park("a1"); p.wait(10 * time.Second); p.exit(143, "a1") }, "stop a1; end 125"},
		{true, func(p *play) { p.park("a1"); p.wait(10 * time.Second); p.exit(143, "a1") }, "stop a1; end 0"},
		{true, func(p *play) { p.park("a1"); p.wait(9 * time.Second); p.hosts("a:2,b:2") }, "nothing"},
	} {
		p := begun(t, Config{NP: 2, Min: 1, OneIsEnough: tt.enough}, "a:2")
		p.exit(0, "a0")
		tt.then(p)
		p.expect(tt.want)
	}
}

func TestUserStops(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 1}, "a:1,b:1")
	p.step(UserStop{Code: 130}).expect("stop a0; stop b0")
	p.exit(0, "a0").step(UserStop{Code: 130, Now: true}).expect("stop b0")
	p.wait(20 * time.Second).expect("fence b; end 130") // b0 does not end
}

func TestVictimsAreNotTheCause(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 2}, "a:1,b:1")
	p.step(Exited{Process: p.live[slot("a0")], Code: 1, Victim: true})
	p.step(Exited{Process: p.live[slot("b0")], Signal: 11}).expect("interrupt; end 139")
}

// A rank of b ends in each epoch and says that it is a victim, and no other rank fails. Its host
// rests, as if the rank had failed by itself.
func TestVictimsOfNobodyCount(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 1}, "a:1,b:1")
	started := 0
	for p.now < 10*time.Minute {
		if q, lives := p.live[slot("b0")]; lives {
			started++
			delete(p.live, q.Slot)
			p.step(Exited{Process: q, Code: 1, Victim: true})
		}
		p.recover()
		p.wait(time.Second)
	}
	check.That(t, p.end == nil && started > 3 && started < 40, "%d processes in %v, end %v", started, p.now, p.end)
}

// As before, after a failure of its own. The job needs both ranks, and the epochs that the rank of
// b ends were never whole: none is excused by the failure of an earlier one.
func TestVictimsOfAnEarlierFailureCount(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 2}, "a:1,b:1")
	started := 1
	p.exit(1, "b0")
	for p.now < 9*time.Minute {
		if p.d.Phase() == Parking {
			p.park("a0")
		}
		p.ready()
		if q, lives := p.live[slot("b0")]; lives && p.d.Phase() == Joining {
			started++
			delete(p.live, q.Slot)
			p.step(Exited{Process: q, Code: 1, Victim: true})
			continue
		}
		p.wait(time.Second)
	}
	check.That(t, p.end == nil && started > 3 && started < 40, "%d processes in %v, end %v", started, p.now, p.end)
}

// A rank ends each epoch by asking for another one. A failure now and then excuses it no more than
// epochs that last longer than moments are held against the job.
func TestEpochsThatDoNotLastEndTheJob(t *testing.T) {
	for _, tc := range []struct {
		lasts    time.Duration // time from the beginning of an epoch to the next question
		failures int           // one of so many is a failure; 0: none
		lost     bool          // whether the rank says that it has lost the other one, which asks then
		said     string        // part of the error that ends the job; "": the job goes on
	}{
		{0, 0, false, "; the last one ended when rank 1 on b asked for another"},
		{10 * time.Second, 0, false, "; the last one ended when rank 1 on b asked for another"},
		{time.Second, 8, false, ", after rank 1 on b exited with code 1"},
		{time.Second, 0, true, "; the last one ended when rank 1 on b said that it had lost rank 0"},
		{quickTime + time.Second, 0, false, ""},
	} {
		p := begun(t, Config{NP: 2, Min: 2}, "a:1,b:1")
		for n := 1; p.now < 20*time.Minute && p.end == nil; n++ {
			p.wait(tc.lasts)
			if tc.failures > 0 && n%tc.failures == 0 {
				p.exit(1, "b0")
			} else if tc.lost {
				p.step(RankLost{p.live[slot("b0")], 0}).park("a0")
			} else {
				p.park("b0")
			}
			for end := p.now + time.Minute; p.d.Phase() != Working && p.end == nil && p.now < end; {
				p.wait(time.Second).recover()
				if p.d.Phase() == Ending {
					p.exit(0)
				}
			}
		}
		if tc.said == "" {
			check.That(t, p.end == nil, "%+v: %+v after %v", tc, p.end, p.now)
			continue
		}
		must.That(t, p.end != nil && p.now >= 10*time.Minute, "%+v: %+v after %v", tc, p.end, p.now)
		check.Equal(t, p.end.Cause, "no epoch has lasted 30s for 10m0s"+tc.said, tc)
	}
}

// A rank of an epoch ends the job. One that has been in none does not.
func TestRankEndsTheJob(t *testing.T) {
	p := begun(t, Config{NP: 1, Min: 1, Max: 2}, "a:1")
	p.hosts("a:1,b:1").wait(time.Minute)
	newcomer, comes := p.live[slot("b0")]
	must.That(t, comes, "nobody has come")
	p.step(Aborted{newcomer, "it says so"})
	must.That(t, p.d.Phase() != Ending, "ended by a newcomer")
	p.step(Aborted{p.live[slot("a0")], "it has no state"}).exit(0)
	must.That(t, p.end != nil, "not ended")
	check.Equal(t, p.end.Code, 1)
	check.Equal(t, p.end.Cause, "rank 0 on a has ended it: it has no state")
}

// With --max-restarts hosts do not rest because of the program's failures, nor because of what
// follows from one: a rank that takes long to end is stopped before it says that it has failed.
func TestVictimsOfRestartsDoNotRest(t *testing.T) {
	p := begun(t, Config{
		NP:         2,
		Together:   true,
		ResetLimit: 8,
		Budget:     math.MaxInt,
	}, "a:1,b:1")
	for range 6 {
		victim := p.live[slot("a0")]
		delete(p.live, victim.Slot)
		p.step(Exited{Process: victim, Code: 1, Victim: true})
		p.exit(1, "b0")
		p.ready()
		must.That(t, p.d.Phase() == Working, "phase %v at %v", p.d.Phase(), p.now)
		p.wait(time.Second)
	}
}

// The host is listed for 2 s and missing for 2 s, for two hours.
func TestFlappingHost(t *testing.T) {
	p := begun(t, Config{NP: 1, Min: 1, Max: 2}, "a:1")
	var seen Debouncer
	var began []time.Duration
	for p.now < 2*time.Hour {
		list := []hostfile.Host{{Name: "a", Slots: 1}, {Name: "b", Slots: 1}}
		if p.now/time.Second%4 >= 2 {
			list = list[:1]
		}
		if polled := seen.Polled(list, nil, p.now); polled.Changed {
			p.step(Hosts{polled.Hosts})
		}
		p.wait(time.Second).ready()
		if slices.ContainsFunc(p.acts, func(a Action) bool { _, ok := a.(Interrupt); return ok }) {
			p.park()
		}
		p.join()
		if gone := stopped(p.acts); len(gone) > 0 {
			p.exit(143, gone...)
		}
		for _, act := range p.acts {
			if _, ok := act.(Announce); ok {
				began = within(append(began, p.now), time.Hour, p.now)
			}
		}
		p.acts = nil
		must.That(t, len(began) <= 6, "epochs at %v", began)
	}
}

func stopped(acts []Action) (slots []string) {
	for _, act := range acts {
		if s, ok := act.(Stop); ok {
			slots = append(slots, fmt.Sprint(s.Host, s.Local))
		}
	}
	return slots
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{{}, {NP: 2, Min: 3}, {NP: 4, Max: 3}, {NP: 2, Min: -1}} {
		check.Error(New(cfg)).Any(t, cfg, "is accepted")
	}
}

// ABRT f3, KILL f2, ABRT f2, KILL f1, ABRT f1, 7 s apart, on three hosts: each failure hits another
// process or is no fault of its own, and numbers change.
func TestUnrelatedFailuresDoNotEndTheJob(t *testing.T) {
	p := begun(t, Config{
		NP:     3,
		Min:    1,
		Max:    3,
		Budget: 100,
	}, "a:1,b:1,c:1")
	for _, harm := range []struct {
		slot   string
		signal int
	}{{"c0", 6}, {"b0", 9}, {"b0", 6}, {"a0", 9}, {"a0", 6}} {
		p.wait(7 * time.Second)
		p.each([]string{harm.slot}, func(q Process) {
			delete(p.live, q.Slot)
			p.step(Exited{Process: q, Signal: harm.signal})
		})
		p.recover()
		must.That(t, p.end == nil && len(p.plan.Members) == 3,
			"after signal %d on %s: %+v, %+v", harm.signal, harm.slot, p.end, p.plan.Members)
	}
}

func TestRepeatedFailureIsForgotten(t *testing.T) {
	for _, tc := range []struct {
		budget int // after which the host rests for 3 min
		ends   bool
	}{{100, true}, {1, false}} {
		p := begun(t, Config{
			NP:       2,
			Min:      1,
			Max:      2,
			Budget:   tc.budget,
			Cooldown: [2]time.Duration{3 * time.Minute, 3 * time.Minute},
		}, "a:1,b:1")
		for range 400 {
			p.wait(time.Second).exit(4, "b0").recover()
		}
		if ended := p.d.Phase() >= Ending; ended != tc.ends {
			t.Errorf("%+v: phase %v", tc, p.d.Phase())
		}
	}
}

// A program that has worked may fail for other reasons, so it takes more failures. SIGKILL comes
// from outside, so it never counts as the program's repeated failure.
func TestRepeatedFailureEndsAWorkingJob(t *testing.T) {
	const never = 2 * provenTimes
	for how, want := range map[Exited]int{{Signal: 11}: provenTimes, {Code: 1}: provenTimes, {Code: 137}: never} {
		p := begun(t, Config{
			NP:     2,
			Min:    1,
			Max:    2,
			Budget: 100,
		}, "a:2")
		times := 0
		for ; p.d.Phase() < Ending && times < never; times++ {
			p.wait(3 * time.Second)
			p.each([]string{"a1"}, func(q Process) {
				delete(p.live, q.Slot)
				how.Process = q
				p.step(how)
			})
			p.recover()
		}
		if times != want || want == never && p.d.Phase() != Working {
			t.Errorf("%+v: ended after %d times, phase %v", how, times, p.d.Phase())
		}
	}
}

// A rank that ends with 0 before it has joined the others has failed: they wait for it, and are not
// late.
func TestRankThatEndsBeforeItJoins(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 1}, "a:2")
	p.hosts("a:2,b:1").ready("b0").park("a0", "a1").expect("start b0 as 2/3; interrupt; epoch 2: a0 a1 b0")
	p.exit(0, "b0").expect("interrupt")
	p.park().expect("epoch 3: a0 a1")
	p.join().exit(0).expect("start b0 as 2/3; stop b0; end 0")
}

// As before, and it says that it has joined. Nobody is blamed for what has become of the others.
func TestRankThatFinishesBeforeOthersJoin(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 1}, "a:2")
	p.hosts("a:2,b:1").ready("b0").park("a0", "a1").expect("start b0 as 2/3; interrupt; epoch 2: a0 a1 b0")
	p.join("b0").exit(0, "b0").wait(time.Minute).expect("abort")
	p.park("a0").wait(10 * time.Second).exit(143).expect("stop a0; stop a1; end 125")
	check.That(t, p.d.first == nil, "blamed: %+v", p.d.first)
}

// A newcomer that leaves each epoch before it is whole neither ends a job that works without it nor
// keeps it from working: it is stopped, and its host rests.
func TestNewcomerThatJoinsNoEpochIsLeftOut(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 1, Max: 3}, "a:2")
	p.hosts("a:2,b:1").ready("b0").park("a0", "a1").expect("start b0 as 2/3; interrupt; epoch 2: a0 a1 b0")
	p.park("b0", "a0", "a1").expect("interrupt; epoch 3: a0 a1 b0")
	p.park("b0", "a0", "a1").wait(time.Second).expect("interrupt; stop b0; epoch 4: a0 a1")
	p.exit(143, "b0").join().wait(8 * time.Second).expect("nothing")
	worked := time.Duration(0)
	for p.now < time.Hour && p.end == nil {
		p.wait(time.Second).ready()
		switch p.d.Phase() {
		case Working:
			worked += time.Second
		case Joining:
			if _, comes := p.live[slot("b0")]; comes && len(p.plan.Members) == 3 {
				p.park("b0", "a0", "a1")
			} else {
				p.join()
			}
		default:
			p.park("a0", "a1")
		}
		if gone := stopped(p.acts); len(gone) > 0 {
			p.exit(143, gone...)
		}
		p.acts = nil
	}
	check.That(t, p.end == nil && worked > 50*time.Minute, "worked %v of %v, end %+v", worked, p.now, p.end)
}

// If the job needs it, it is named when the job ends.
func TestNewcomerThatJoinsNoEpochIsNamed(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 2}, "a:1,b:1")
	p.exit(1, "b0").park("a0").ready("b0").join("a0")
	for p.now < 20*time.Minute && p.end == nil {
		p.park("b0", "a0").wait(time.Second)
		if p.d.Phase() == Ending {
			p.exit(143)
		}
	}
	must.That(t, p.end != nil, "not ended")
	named := strings.Contains(p.end.Cause, "; the last one ended when rank 1 on b asked for another")
	check.That(t, named, "%+v", p.end)
}
