package launcher

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/wire"
)

func TestRunStartsNothingUnlessEveryHostIsReady(t *testing.T) {
	refuse := func(code int, what string) *machine {
		return &machine{serve: func(a *fakeAgent) error {
			if _, err := a.expect(wire.TypeJob); err != nil {
				return err
			}
			return a.out.SendMessage(wire.TypeRefuse, wire.Refuse{Code: code, What: what})
		}}
	}
	var mu sync.Mutex
	var ends []error
	ready := &machine{serve: func(a *fakeAgent) error {
		err := a.ready()
		mu.Lock()
		ends = append(ends, err)
		mu.Unlock()
		return err
	}}
	runOn(t, []*machine{ready, refuse(127, "no program"), refuse(127, "none here")}, nil, func(t *testing.T, _ string, _ Result, _ time.Duration, err error) {
		var launch *LaunchError
		if !errors.As(err, &launch) || launch.Code() != 127 || len(launch.Hosts) != 2 {
			t.Fatal(err)
		}
		if got, want := err.Error(), "cannot start the job: h1: no program; h2: none here"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if len(ends) != 1 || !errors.Is(ends[0], io.EOF) {
			t.Errorf("the host that was ready: %v, want the end of its stdin", ends)
		}
	})
}

// TestRunEndsThoughAReadyAgentGoesOnTalking guards against a wait for an agent whose
// frames nobody reads: it beats while another host is slow to fail.
func TestRunEndsThoughAReadyAgentGoesOnTalking(t *testing.T) {
	chatty := &machine{serve: func(a *fakeAgent) error {
		if _, err := a.expect(wire.TypeJob); err != nil {
			return err
		}
		if err := a.out.SendMessage(wire.TypeReady, wire.Ready{}); err != nil {
			return err
		}
		return ignoreAll(a)
	}}
	slow := &machine{serve: func(*fakeAgent) error {
		time.Sleep(5 * time.Second)
		return exitStatus(3)
	}}
	runOn(t, []*machine{chatty, slow}, nil, func(t *testing.T, _ string, _ Result, took time.Duration, err error) {
		var launch *LaunchError
		if !errors.As(err, &launch) || len(launch.Hosts) != 1 || launch.Hosts[0].Host != "h1" {
			t.Error(err)
		}
		if took > 5*time.Second+partingTime {
			t.Errorf("took %v", took)
		}
	})
}

func TestRunListsHostsThatCannotBeReached(t *testing.T) {
	runOn(t, []*machine{serving(succeed), {}, {}}, func(o *Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, h hostfile.Host) (Host, error) {
			if h.Name != "h0" {
				return nil, errors.New("no route")
			}
			return dial(ctx, h)
		}
	}, func(t *testing.T, _ string, _ Result, _ time.Duration, err error) {
		var launch *LaunchError
		if !errors.As(err, &launch) || launch.Code() != CodeLaunch || err.Error() != "cannot start the job: h1: no route; h2: no route" {
			t.Error(err)
		}
	})
}

func TestRunGivesUpOnASlowStart(t *testing.T) {
	mute := &machine{serve: func(a *fakeAgent) error { return a.untilEOF() }} // never ready
	runOn(t, []*machine{serving(succeed), mute}, func(o *Options) { o.StartTimeout = 20 * time.Second }, func(t *testing.T, _ string, _ Result, took time.Duration, err error) {
		if err == nil || err.Error() != "cannot start the job: h1: not started within 20s (--start-timeout)" {
			t.Error(err)
		}
		if took != 20*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

func TestRunStopsBeforeTheStart(t *testing.T) {
	mute := &machine{serve: func(a *fakeAgent) error { return a.untilEOF() }}
	stops := make(chan Stop, 1)
	runOn(t, []*machine{serving(succeed), mute}, func(o *Options) {
		o.Stops = stops
		stops <- Stop{Reason: Interrupted}
	}, func(t *testing.T, _ string, _ Result, took time.Duration, err error) {
		var stopped *StoppedError
		if !errors.As(err, &stopped) || stopped.Reason != Interrupted || took != 0 {
			t.Errorf("%v after %v", err, took)
		}
	})
}
