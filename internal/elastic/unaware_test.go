package elastic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A rank that knows no epochs may finish as early as it likes, and another one may take its time.
func TestRanksUnawareOfEpochsFinishApart(t *testing.T) {
	for code, want := range map[int]string{0: "end 0", 4: "end 4"} {
		p := newPlay(t, Config{NP: 2, Min: 1}, "a:2")
		p.each(nil, func(q Process) { p.step(Spawned{q}) })
		p.wait(time.Second).exit(0, "a0").expect("start a0 as 0/2; start a1 as 1/2")
		p.wait(time.Hour).expect("nothing")
		p.exit(code, "a1").expect(want)
	}
	p := newPlay(t, Config{NP: 2, Min: 1}, "a:2")
	p.each(nil, func(q Process) { p.step(Spawned{q}) })
	p.exit(0, "a0").wait(time.Minute).ready("a1").wait(10 * time.Second).exit(143)
	check.That(t, p.end != nil && p.end.Code == CodeNoRank, "one that waits for an epoch then ends with %+v", p.end)
}

// A host that asks for an epoch before the first one begins, in the name of a program that knows of
// none, does not go on alone either. The other host's ranks run as long as others might import, and
// may finish.
func TestRanksThatKnowNoEpochsAreAwaited(t *testing.T) {
	begin := func(hosts string) *play {
		p := newPlay(t, Config{NP: 1 + strings.Count(hosts, ","), Min: 1}, hosts)
		p.each(nil, func(q Process) { p.step(Spawned{q}) })
		p.expect("")
		p.ready("b0").wait(5 * time.Minute).expect("nothing")
		return p
	}
	p := begin("a:1,b:1")
	p.wait(5 * time.Minute).expect("stop a0; stop b0")
	p.exit(143)
	check.That(t, p.end.Code == CodeNoRank && strings.HasSuffix(p.end.Cause, ", and rank 1 on b asked for one") &&
		strings.Contains(p.end.Cause, "such as rank 0 on a,"), "%+v", p.end)
	p = begin("a:1,b:1")
	p.exit(0, "a0").wait(10 * time.Second).exit(143).expect("stop b0; end 125")
	p = begin("a:1,b:1")
	p.ready("a0").expect("epoch 1: a0 b0") // it has imported
	p = begin("a:1,b:1,c:1,d:1")
	p.ready("a0", "b0").wait(3 * time.Minute).ready("c0").wait(time.Minute).ready("d0").expect("epoch 1: a0 b0 c0 d0")
	p = begin("a:1,b:1")
	p.step(HostLost{"a", errNoConnection}).step(HostFenced{"a"}).exit(143)
	p.expect("fence a; stop a0; stop b0; start b0 as 0/1") // the job goes on without a host that has died
	p.ready("b0").expect("epoch 2: b0")
}

// Fewer ranks that do not start are replaced, and the job goes on without them.
func TestFewRanksThatNeverAskAreLate(t *testing.T) {
	p := newPlay(t, Config{NP: 3, Min: 2}, "a:1,b:1,c:1")
	for range 4 {
		p.each(nil, func(q Process) { p.step(Spawned{q}) })
		p.ready("a0", "b0").expect("start a0 as 0/3; start b0 as 1/3; start c0 as 2/3")
		p.wait(2 * time.Minute).expect("stop c0; stop a0; stop b0")
		p.exit(143)
	}
	p.expect("start a0 as 0/2; start b0 as 1/2")
}

// presumed returns a play of hosts with a rank each, none of which has asked for an epoch in time.
func presumed(t *testing.T, hosts string) *play {
	p := newPlay(t, Config{NP: 1 + strings.Count(hosts, ","), Min: 1}, hosts)
	p.each(nil, func(q Process) { p.step(Spawned{q}) })
	p.wait(UnawareTime).expect("")
	must.That(t, p.d.Unaware() && p.d.Phase() == Working, "phase %v", p.d.Phase())
	return p
}

// Ranks that import for long and then ask wait for one that never does only for a bounded time.
func TestRankThatNeverAsksIsNotAwaited(t *testing.T) {
	p := presumed(t, "a:1,b:1,c:1")
	p.wait(20*time.Second).ready("a0", "b0").join("a0", "b0").wait(2*time.Minute - time.Second).expect("nothing")
	p.wait(time.Second).expect("abort; interrupt")
	p.park("a0", "b0").wait(time.Minute).expect("stop c0")
	p.exit(143, "c0").expect("start c0 as 2/3")
	p.ready("c0").join().expect("epoch 2: a0 b0 c0")
	check.That(t, p.d.Established() && !p.d.Unaware(), "not elastic again")
}

// A host whose ranks ask one after the other, or say late that they have joined, holds others up
// for as long as one rank may take to ask and to join, and then to ask for another epoch.
func TestRanksThatAskOneAfterTheOtherAreLate(t *testing.T) {
	p := newPlay(t, Config{NP: 9, Min: 1}, "a:1,b:8")
	p.each(nil, func(q Process) { p.step(Spawned{q}) })
	p.wait(UnawareTime+time.Second).ready("a0", "b0").join("a0")
	begun := p.now
	p.wait(119 * time.Second).ready("b1")
	for i := 2; i < 8 && p.d.Phase() == Joining; i++ {
		p.wait(59 * time.Second).ready(fmt.Sprint("b", i))
	}
	check.That(t, p.d.Phase() == Parking, "phase %v after %v", p.d.Phase(), p.now-begun)
	check.That(t, p.now-begun <= 4*time.Minute, "they were awaited for %v", p.now-begun)

	p = presumed(t, "a:1,b:1,c:1")
	p.ready("a0", "b0").exit(1, "b0").park("a0").expect("interrupt")
	p.wait(59 * time.Second).ready("c0").join("c0").expect("abort")
	p.wait(time.Second).expect("stop c0")
}

// Nor does a rank that says late that it has joined an epoch which is over.
func TestRankThatJoinsAnEpochThatIsOverIsLate(t *testing.T) {
	p := newPlay(t, Config{NP: 3, Min: 2}, "a:1,b:1,c:1")
	p.ready().join("a0", "b0").exit(1, "b0").park("a0").expect("")
	p.wait(59 * time.Second).join("c0").expect("abort")
	p.wait(time.Second).expect("stop c0")
}

// The ranks of half of the hosts may import for long, also if one of another host fails meanwhile.
func TestRanksThatAskLateJoin(t *testing.T) {
	p := presumed(t, "a:1,b:1")
	p.ready("a0").wait(8 * time.Minute).expect("nothing")
	check.That(t, !p.d.Established(), "whole, and b0 has not joined")
	p.ready("b0").join().expect("nothing")
	check.That(t, p.d.Established() && p.d.Phase() == Working, "phase %v", p.d.Phase())

	p = presumed(t, "a:1,b:1,c:1,d:1,e:1")
	p.ready("a0", "b0", "c0").exit(1, "c0").park("a0", "b0").wait(8 * time.Minute).expect("interrupt; abort")
	p.ready("d0", "e0").park("d0", "e0").expect("start c0 as 4/5")
}

// A host that asks does not excuse the failure of a rank that knows of no epochs.
func TestFailureEndsAJobOfWhichOneHostAsks(t *testing.T) {
	for _, parks := range []bool{false, true} {
		p := presumed(t, "a:1,b:1")
		p.ready("b0").join("b0")
		if parks {
			p.park("b0")
		}
		p.exit(4, "a0")
		check.That(t, p.d.Phase() == Ending, "the host asked again: %v: the job goes on", parks)
		p.exit(143, "b0")
		check.That(t, p.end != nil && p.end.Code == 4, "the host asked again: %v: the job ends with %+v", parks, p.end)
	}
}
