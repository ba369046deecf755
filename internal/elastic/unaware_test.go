package elastic

import (
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
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
		p := newPlay(t, Config{NP: 2, Min: 1}, hosts)
		p.each(nil, func(q Process) { p.step(Spawned{q}) })
		p.ready("b0").wait(5 * time.Minute).expect("start a0 as 0/2; start b0 as 1/2")
		return p
	}
	p := begin("a:1,b:1")
	p.wait(5 * time.Minute).expect("stop a0; stop b0")
	p.exit(143)
	check.That(t, p.end.Code == CodeNoRank && strings.HasSuffix(p.end.Cause, ", and rank 1 on b asked for one"),
		"%+v", p.end)
	p = begin("a:1,b:1")
	p.exit(0, "a0").wait(10 * time.Second).exit(143).expect("stop b0; end 125")
	p = begin("a:1,b:1")
	p.ready("a0").expect("epoch 1: a0 b0") // it has imported
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
