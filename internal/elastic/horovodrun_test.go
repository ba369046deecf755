package elastic

import (
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

func asHorovodrun(cfg Config) Config {
	cfg.Horovodrun = true
	return cfg
}

func TestHorovodrunStartsOnAllSlots(t *testing.T) {
	p := newPlay(t, asHorovodrun(Config{NP: 3, Min: 2, Max: 4}), "a:2")
	p.expect("nothing")
	p.hosts("a:2,b:3").expect("start a0 as 0/4; start a1 as 1/4; start b0 as 2/4; start b1 as 3/4")
}

func TestHorovodrunSetsFailedHostsAside(t *testing.T) {
	p := begun(t, asHorovodrun(Config{NP: 2, Min: 2, Max: 4}), "a:2,b:2")
	p.exit(1, "a0").expect("stop a1; interrupt")
	p.exit(143, "a1").park("b0", "b1").expect("epoch 2: b0 b1")
	p.join().wait(10 * time.Hour).expect("nothing")
	p.exit(0).expect("end 0")
}

func TestHorovodrunEndsWithoutHosts(t *testing.T) {
	p := begun(t, asHorovodrun(Config{NP: 2, Min: 2}), "a:2,b:2")
	p.exit(5, "a0")
	p.step(Exited{Process: p.live[slot("b0")], Code: 6, Victim: true}) // it was told of the first failure
	delete(p.live, slot("b0"))
	p.exit(143, "a1", "b1").expect("stop a1; interrupt; stop b1; end 5")
	check.That(t, strings.Contains(p.end.Cause, "every host was set aside after a failure"), "%v", p.end.Cause)
}

func TestHorovodrunCooldown(t *testing.T) {
	cfg := asHorovodrun(Config{
		NP:       2,
		Min:      1,
		Max:      2,
		Cooldown: [2]time.Duration{10 * time.Second, 50 * time.Second},
	})
	p := begun(t, cfg, "a:1,b:1")
	for _, wait := range []time.Duration{20 * time.Second, 40 * time.Second, 50 * time.Second, 50 * time.Second} {
		p.exit(1, "b0").park("a0").join().expect("")
		p.wait(wait - time.Second).expect("nothing")
		p.wait(time.Second).expect("start b0 as 1/2") // the others train on until it is ready
		p.ready("b0").expect("interrupt")
		p.park("a0").join().expect("")
	}
}

func TestHorovodrunCallsRanksWhenAHostIsFound(t *testing.T) {
	p := begun(t, asHorovodrun(Config{NP: 1, Min: 1, Max: 4}), "a:1")
	p.hosts("a:1,b:1").expect("start b0 as 1/2; interrupt")
	p.park("a0").expect("nothing")
	p.ready("b0").expect("epoch 2: a0 b0")
	p.join().hosts("b:1").park("a0", "b0").expect("interrupt; stop a0; epoch 3: b0")
	p.exit(134, "a0").join() // a has left on request, and may return
	p.hosts("a:1,b:1").expect("start a0 as 1/2; interrupt")
	p.park("b0").exit(3, "a0").expect("epoch 5: b0") // before it is ready
	p.join()
	check.That(t, p.d.Phase() == Working && len(p.plan.Members) == 1, "phase %v, plan %+v", p.d.Phase(), p.plan)
}

func TestHorovodrunCountsEveryReset(t *testing.T) {
	p := begun(t, asHorovodrun(Config{NP: 1, Min: 1, ResetLimit: 1}), "a:1")
	p.hosts("a:1,b:1").park("a0").ready("b0").join().expect("")
	p.hosts("b:1").park("a0", "b0").exit(143)
	check.That(t, p.end != nil && p.end.Cause == "the limit of 1 reset is reached", "%+v", p.end)
}
