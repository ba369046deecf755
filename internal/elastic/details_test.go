package elastic

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestCooldown(t *testing.T) {
	h := &host{}
	cooldown := [2]time.Duration{10 * time.Second, 300 * time.Second}
	for i, want := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		got := h.setAside(cooldown, 0, 0)
		check.That(t, got == want*time.Second, "the %dth time for %v, want %d s", i+1, got, want)
	}
	check.That(t, !h.usable(h.asideTill-1), "usable too early")
	check.Equal(t, h.setAside(cooldown, 0.8, time.Minute), 360*time.Second, "with jitter")
	check.Equal(t, h.setAside(cooldown, 0, 2*time.Hour), 10*time.Second, "after it was well for long")
}

func TestOldFailuresDoNotCountAgainstTheBudget(t *testing.T) {
	h := &host{}
	for i := range 20 {
		must.That(t, !h.overspent(3, 10*time.Minute, time.Duration(i)*4*time.Minute),
			"after %d failures, one every 4 min", i+1)
	}
	check.That(t, h.overspent(3, 10*time.Minute, 77*time.Minute), "the fourth within 10 min must be one too many")
}

func TestGapsAreFilledFirst(t *testing.T) {
	p := begun(t, Config{NP: 3, Min: 2, Max: 3}, "a:2,b:2")
	p.exit(1, "a0").park().join().expect("interrupt; epoch 2: a1 b0; start a0 as 1/3")
}

func TestEpochsThatEndForNoReasonAreDelayed(t *testing.T) {
	p := begun(t, Config{NP: 1, Max: 1}, "a:1")
	p.park().join().expect("interrupt; epoch 2: a0")
	p.park().expect("interrupt")
	p.wait(time.Second).expect("epoch 3: a0")
	p.park() // before it has joined
	p.wait(time.Second).expect("interrupt")
	p.wait(time.Second).expect("epoch 4: a0")
}

func TestEventsOfEarlierEpochsAreIgnored(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 2, Max: 2}, "a:1,b:1")
	old := p.live[slot("b0")]
	p.exit(1, "b0").park("a0").ready().expect("interrupt; start b0 as 1/2; epoch 2: a0 b0")
	p.step(Exited{Process: old, Code: 1}).step(StartFailed{Process: old, Err: errNoConnection})
	p.step(Parked{p.live[slot("a0")], 1}).step(Joined{p.live[slot("a0")], 1}).join("b0").expect("nothing")
	check.That(t, p.d.phase != Working, "whole, and a0 has not joined")
	p.join("a0")
	check.That(t, p.d.phase == Working, "not whole")
}

func TestParkedOnALostHost(t *testing.T) {
	p := begun(t, Config{NP: 2, Min: 1}, "a:1,b:1")
	p.park().expect("interrupt; epoch 2: a0 b0")
	p.park("b0").step(HostLost{"b", errNoConnection}).park("a0").expect("interrupt; fence b")
	p.step(HostFenced{"b"}).wait(2 * time.Second).expect("epoch 3: a0") // it has state since epoch 1
}

func TestDifferentOrLateFailuresDoNotEndTheJob(t *testing.T) {
	cfg := Config{
		NP:      1,
		Min:     1,
		Max:     1,
		Timeout: time.Hour,
		Budget:  100,
	}
	p := newPlay(t, cfg, "a:1")
	for range 5 {
		p.exit(5).exit(6)
	}
	for range 5 {
		p.wait(31 * time.Second).exit(4)
	}
	if p.end != nil {
		t.Errorf("ended with %+v", *p.end)
	}
	cfg.NP = 2
	cfg.Max = 2
	p = begun(t, cfg, "a:2")
	for range 4 {
		p.exit(4, "a1") // early, but each epoch between is whole for a minute
		p.park("a0").join().wait(time.Minute).ready().park("a0").join()
		must.That(t, p.d.phase == Working && len(p.live) == 2, "a1 was not replaced: %+v", p.end)
	}
}

func TestStoppedProcessHasNeitherFailedNorFinished(t *testing.T) {
	for _, code := range []int{143, 0} {
		p := begun(t, Config{NP: 2, Min: 1}, "a:1,b:1")
		p.hosts("a:1").wait(10 * time.Minute) // no rank answers the interrupt
		p.exit(code, "b0").park("a0")
		for _, act := range p.acts {
			if n, ok := act.(Note); ok && n.Kind == NoteFailed {
				t.Error(n.Text)
			}
		}
		n := len(p.d.host("b").failures)
		check.That(t, n <= 0, "exit %d: %d failures", code, n)
		p.expect("interrupt; stop b0; interrupt; epoch 2: a0")
	}
}

// Listing all processes for each event would make a job of thousands slow to start.
func TestStepDoesNotListAllProcesses(t *testing.T) {
	var hosts []string
	for i := range 500 {
		hosts = append(hosts, fmt.Sprintf("h%d:2", i))
	}
	p := newPlay(t, Config{NP: 1000}, strings.Join(hosts, ","))
	for _, m := range p.live {
		p.step(Ready{m})
	}
	running := 0
	allocated := testing.AllocsPerRun(10, func() {
		p.step(Joined{p.plan.Members[running].Process, p.plan.Epoch})
		running++
	})
	if _, ok := p.acts[len(p.acts)-1].(Announce); !ok || running < 10 || allocated > 20 {
		t.Errorf("%v allocations a step after %d of 1000 have joined; last %T", allocated, running,
			p.acts[len(p.acts)-1])
	}
}

// An unlimited budget is for failing programs, not for hosts where no process starts.
func TestFailingStartsRestTheHost(t *testing.T) {
	for _, tc := range []struct {
		code int
		want string // after the fourth time
	}{{CodeNoRank, "nothing"}, {127, "start a0 as 0/1"}} {
		p := newPlay(t, Config{NP: 1, Together: true, Budget: math.MaxInt}, "a:1")
		for range 4 {
			p.expect("start a0 as 0/1")
			p.step(StartFailed{p.live[slot("a0")], tc.code, errors.New("no session")})
		}
		p.expect(tc.want)
		p.wait(10 * time.Second)
		if tc.code == CodeNoRank {
			p.expect("start a0 as 0/1")
		}
	}
}
