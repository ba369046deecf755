package launcher

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/wire"
)

// An agent that hangs while its connection stands is given up after hungTime, also
// when it is the last one (run.go: beat drops apply's answer; Run never returns).
func TestRunGivesUpAHungAgent(t *testing.T) {
	stop := time.AfterFunc(20*time.Second, func() { panic("Run does not return") }) // outside the bubble, so in real time
	defer stop.Stop()
	silent := func(a *fakeAgent) error { return a.untilEOF() }
	runOn(t, []*machine{serving(silent)}, nil, func(t *testing.T, _ string, r Result, took time.Duration, err error) {
		if err != nil || r.Code() != CodeLaunch || r.Cause == nil || !strings.HasPrefix(r.Cause.String(), "host h0: no word from the agent for ") {
			t.Errorf("%+v, %v", r, err)
		}
		if took < hungTime || took > hungTime+5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A command that says hello and reads nothing must not hold its session up.
func TestOpenSessionDoesNotWaitForAnAgentThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, err := openSession(t.Context(), command(func(ctx context.Context, nonce string, _ io.Reader, stdout, _ io.Writer) error {
			if err := sayHello(stdout, nonce, "one"); err != nil {
				return err
			}
			<-ctx.Done()
			return ctx.Err()
		}), "/gorun", "one", helloTime)
		if err == nil || time.Since(began) != helloTime {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

// Agents that are ready must hear from the launcher while slow hosts get ready, or
// their lease of 60 s ends (--start-timeout may be longer).
func TestRunBeatsWhileHostsGetReady(t *testing.T) {
	var longest time.Duration
	ready := &machine{serve: func(a *fakeAgent) error {
		if _, err := a.expect(wire.TypeJob); err != nil {
			return err
		}
		if err := a.out.SendMessage(wire.TypeReady, wire.Ready{}); err != nil {
			return err
		}
		for last := time.Now(); ; last = time.Now() {
			f, err := a.frames.Next()
			if err != nil {
				return err
			}
			longest = max(longest, time.Since(last))
			if f.Type == wire.TypeStart {
				return a.finish(wire.Exit{})
			}
		}
	}}
	slow := &machine{serve: func(a *fakeAgent) error {
		time.Sleep(100 * time.Second)
		if err := a.ready(); err != nil {
			return err
		}
		return succeed(a)
	}}
	runOn(t, []*machine{ready, slow}, func(o *Options) { o.StartTimeout = 300 * time.Second }, func(t *testing.T, _ string, _ Result, _ time.Duration, err error) {
		if err != nil || longest > 10*time.Second {
			t.Errorf("%v; an agent heard nothing for %v", err, longest)
		}
	})
}

// A prompt must show though another rank prints all the time.
func TestPrinterShowsAPromptBesideABusyRank(t *testing.T) {
	printed(t, rankPrefix, func(p *printer, w *terminal) {
		p.add(wire.OutputStream(0, 1), []byte("name? "), ignore)
		for range 100 {
			p.add(wire.OutputStream(1, 1), []byte("step\n"), ignore)
			p.pause(wire.OutputStream(0, 1))
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		if !strings.Contains(w.String(), "name?") {
			t.Error("no prompt after 5 s")
		}
	})
}

// The second half of a \r\n must not begin an empty line of nobody's when another rank
// printed in between.
func TestPrinterKeepsCRLFTogether(t *testing.T) {
	got := printed(t, rankPrefix, func(p *printer, _ *terminal) {
		p.add(wire.OutputStream(0, 1), []byte("a\r"), ignore)
		p.add(wire.OutputStream(1, 1), []byte("b\n"), ignore)
		p.add(wire.OutputStream(0, 1), []byte("\nc\n"), ignore)
	})
	for line := range strings.Lines(got) {
		if !strings.Contains(line, "> ") {
			t.Errorf("%q has a line without a prefix", got)
		}
	}
}

// A message that is too large must not silence an outbox: no heartbeat and no stop
// would reach the agent any more.
func TestOutboxOutlivesAMessageThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		o := newOutbox(wire.NewWriter(w))
		values := map[int][]byte{}
		for rank := range 256 { // each as large as kv.MaxFence allows
			values[rank] = bytes.Repeat([]byte("x"), 64<<10)
		}
		o.tell(wire.TypeFenced, wire.Fence{Name: "f", Values: values})
		synctest.Wait()
		if o.closed {
			t.Error("the outbox is closed, and nobody knows")
		}
		o.close()
		r.Close()
		<-o.done
	})
}

func TestPlanRefusesNonsense(t *testing.T) {
	defer func() {
		if r := recover(); r != nil {
			t.Error(r)
		}
	}()
	if plan, err := NewPlan(nil, Request{}); err == nil {
		t.Errorf("no hosts: %+v", plan)
	}
	if plan, err := NewPlan([]hostfile.Host{{Name: "a", Slots: 1}}, Request{NP: -1}); err == nil {
		t.Errorf("-1 ranks: %+v", plan)
	}
}

// The hint must be one that works, and the error must be about the request.
func TestMaxSlotsHintIsTrue(t *testing.T) {
	hosts := []hostfile.Host{{Name: "a", Slots: 2, MaxSlots: 3}, {Name: "b", Slots: 2, MaxSlots: 2}}
	_, err := NewPlan(hosts, Request{NP: 8})
	var few *SlotsError
	if !errors.As(err, &few) {
		t.Fatal(err)
	}
	if few.NP != 8 || !strings.Contains(few.Hint(), "at most -np 5,") {
		t.Errorf("%v; %s; but 5 ranks have room", err, few.Hint())
	}
	if _, err := NewPlan(hosts, Request{NP: 5}); err != nil {
		t.Errorf("5 ranks: %v", err)
	}
}
