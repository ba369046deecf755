package launcher

import (
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
)

// The user suspends the job for longer than the lease, and longer than an agent may be silent.
func TestRunStandsStill(t *testing.T) {
	stand := func(a *fake.Agent) error {
		if _, err := a.Expect(wire.TypeSuspend); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		if err := a.Out.SendMessage(wire.TypeSuspended, nil); err != nil {
			return err
		}
		if _, err := a.Expect(wire.TypeResume); err != nil {
			return err
		}
		return succeed(a)
	}
	var told time.Duration
	r, err := runOn(t, []*fake.Machine{serving(stand), serving(succeed), serving(stand)}, func(o *Options) {
		pauses := make(chan Pause)
		o.Pauses = pauses
		go func() {
			time.Sleep(10 * time.Second)
			began := time.Now()
			done := make(chan struct{})
			pauses <- Pause{Suspend: true, Suspended: done}
			<-done
			told = time.Since(began)
			time.Sleep(20 * time.Second)
			pauses <- Pause{}
		}()
	})
	succeeds(t, r.Result, err)
	check.That(t, told >= 100*time.Millisecond && told <= 200*time.Millisecond && r.took >= 30*time.Second &&
		r.took <= 33*time.Second, "told after %v, ended after %v", told, r.took)
}

// A host that does not answer a pause, and ends instead, holds up nobody.
func TestPauseOfAHostThatEnds(t *testing.T) {
	leave := func(a *fake.Agent) error {
		if _, err := a.Expect(wire.TypeSuspend); err != nil {
			return err
		}
		return fake.ExitStatus(137)
	}
	told := make(chan struct{})
	r, err := runOn(t, []*fake.Machine{serving(leave)}, func(o *Options) {
		pauses := make(chan Pause, 1)
		pauses <- Pause{Suspend: true, Suspended: told}
		o.Pauses = pauses
	})
	select {
	case <-told:
	default:
		t.Error("nobody was told")
	}
	check.That(t, err == nil && r.Code() == CodeLaunch, "%+v, %v", r, err)
}
