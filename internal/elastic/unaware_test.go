package elastic

import (
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
