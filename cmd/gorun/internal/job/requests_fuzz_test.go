package job

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/sight/stacks"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// answers is the agent of a good host, whose ranks run until they are stopped.
func answers(a *fake.Agent) error {
	if err := a.Ready(); err != nil {
		return nil
	}
	over := make(chan struct{})
	defer close(over)
	go func() {
		for a.Out.SendHeartbeat(0) == nil {
			select {
			case <-time.After(time.Second):
			case <-over:
				return
			}
		}
	}()
	for {
		f, err := a.Frames.Next()
		if err != nil {
			return nil
		}
		switch f.Type {
		case wire.TypeStop:
			return a.Finish(wire.Exit{Signal: 15, Stopped: true})
		case wire.TypeAsk:
			if err := answer(a, f); err != nil {
				return err
			}
		}
	}
}

// answer answers an errand at once.
func answer(a *fake.Agent, f wire.Frame) error {
	var ask wire.Ask
	if err := f.Decode(&ask); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, r := range a.Job.Ranks {
		switch ask.Kind {
		case wire.AskStacks:
			_ = json.NewEncoder(&out).Encode(stacks.Rank{Rank: r.Rank})
		case wire.AskPulse:
			_ = json.NewEncoder(&out).Encode(stacks.Pulse{Rank: r.Rank, Calls: 7})
		case wire.AskWatch:
			_ = json.NewEncoder(&out).Encode(wire.Reading{Rank: &wire.RankUse{Rank: r.Rank, PID: 7}})
		}
	}
	if ask.Kind == wire.AskWatch {
		_ = json.NewEncoder(&out).Encode(wire.Reading{Host: &wire.HostUse{CPUs: 4}})
		return a.Out.SendTell(ask.ID, wire.TellOut, out.Bytes())
	}
	if out.Len() > 0 {
		if err := a.Out.SendTell(ask.ID, wire.TellOut, out.Bytes()); err != nil {
			return err
		}
	}
	return a.Out.SendTell(ask.ID, wire.TellEnd, []byte("{}"))
}

// asking asks the hosts of a job, of which others are good.
type asking struct {
	hostRequests
	t      *testing.T
	others func(rank int) bool
	broken func() bool // whether the hostile host is lost, and the job ends
}

// post sends a request and returns its answer.
func (a asking) post(path string, message any) *httptest.ResponseRecorder {
	body := must.Get(json.Marshal(message))(a.t)
	r := httptest.NewRequestWithContext(a.t.Context(), http.MethodPost, "/v1/"+path, bytes.NewReader(body))
	w := httptest.NewRecorder()
	began := time.Now()
	check.That(a.t, a.serve(w, r, path), "%s is not served", path)
	took := time.Since(began)
	check.That(a.t, took <= answerTime+time.Second, "%s took %v", path, took)
	return w
}

func (a asking) stacks() {
	w := a.post("stacks", map[string]any{})
	if w.Code != http.StatusOK {
		check.That(a.t, a.broken(), "%d: %s", w.Code, w.Body)
		return
	}
	var got struct{ Ranks []stacks.Rank }
	must.OK(a.t, json.Unmarshal(w.Body.Bytes(), &got))
	for _, r := range got.Ranks {
		check.That(a.t, a.others(r.Rank) == (r.Host == "h0"), "rank %d is on %s", r.Rank, r.Host)
		check.That(a.t, !a.others(r.Rank) || r.Error == "" || a.broken(), "rank %d: %s", r.Rank, r.Error)
	}
	_ = stacks.View{Size: 4}.Text(got.Ranks)
}

func (a asking) pulses() {
	told, err := (&hangReporter{hosts: a.hostRequests}).pulses(a.t.Context(), nil)
	check.That(a.t, err == nil || a.broken(), "%v", err)
	for s, pulses := range told {
		for _, p := range pulses {
			good := a.others(p.Rank)
			check.That(a.t, good == (s.Host.Name == "h0"), "%s speaks for rank %d", s.Host.Name, p.Rank)
			check.That(a.t, !good || p.Calls == 7 || a.broken(), "%+v", p)
		}
	}
}

// processes asks for the processes of all ranks, as for debuggers.
func (a asking) processes() {
	for _, s := range a.sessions.All() {
		began := time.Now()
		ranks := s.Host.Numbers()
		_, err := (&rankTerminals{hosts: a.hostRequests}).processes(a.t.Context(), ranks)
		took := time.Since(began)
		check.That(a.t, took <= openTime+answerTime+time.Second, "processes took %v", took)
		check.That(a.t, err == nil || !a.others(ranks[0]) || a.broken(), "%v", err)
	}
}

func (a asking) watch() {
	ctx, cancel := context.WithTimeout(a.t.Context(), 10*time.Second)
	defer cancel()
	every := func(time.Duration) time.Duration { return time.Second }
	must.OK(a.t, a.watched.Follow(ctx, every, func(s watch.Sample) error {
		_, err := json.Marshal(s)
		check.OK(a.t, err)
		for _, r := range s.Ranks {
			check.That(a.t, a.others(r.Rank) == (r.Host == "h0"), "%+v", r)
			check.That(a.t, !a.others(r.Rank) || r.PID == 0 || r.PID == 7, "%+v", r)
		}
		return nil
	}))
}

// exec runs a command with the hostile host, until it has said something or the session ends.
func (a asking) exec() {
	s := a.sessions.On("h1")
	if s == nil {
		return
	}
	e, err := s.Ask(wire.Ask{Kind: wire.AskExec, Argv: wire.Texts{"x"}})
	if err != nil {
		check.That(a.t, a.broken(), "%v", err)
		return
	}
	var input sync.WaitGroup
	input.Go(func() { _ = e.Input(make([]byte, 2*wire.Window)) })
	end := time.AfterFunc(5*time.Second, e.Close)
	relay(e, frames.NewWriter(io.Discard))
	end.Stop()
	e.Close()
	input.Wait()
}

// Whatever a hostile host says to requests beside its job, in whatever order: gorun lives on, each
// request ends in its time, and what is said of the ranks of another host comes from that host.
func FuzzRequestsToAHost(f *testing.F) {
	fake.AddScripts(f, 60)
	f.Fuzz(func(t *testing.T, input []byte) {
		s := &fake.Script{Rest: input[:min(len(input), 1<<10)]}
		over := time.AfterFunc(time.Minute, func() { panic("the job does not end") }) // in real time
		defer over.Stop()
		first := s.Flag()
		synctest.Test(t, func(t *testing.T) { requestsBeside(t, s, first) })
	})
}

func requestsBeside(t *testing.T, s *fake.Script, first bool) {
	hosts := []hostfile.Host{{Name: "h0", Slots: 2}, {Name: "h1", Slots: 2}}
	if first {
		slices.Reverse(hosts)
	}
	p := must.Get(plan.New(hosts, launcher.Request{}))(t)
	machines := map[string]*fake.Machine{"h0": {Serve: answers}, "h1": {Serve: func(a *fake.Agent) error {
		play := *s
		return play.PlayWith(a, func() error { return play.Errand(a) })
	}}}
	sessions := &launcher.Sessions{}
	stops := make(chan launcher.Stop, 1)
	started := make(chan struct{})
	opts := launcher.Options{
		Programs: []launcher.Program{{Argv: []string{"x"}, Wdir: "/", Ranks: p.Size}},
		Reach: launcher.Reach{
			Dial: func(_ context.Context, h hostfile.Host) (launcher.Host, error) { return machines[h.Name], nil },
			Exe: launcher.Executable{Path: "/gorun", Build: "one",
				Hash: func() (string, error) { return strings.Repeat("0", 64), nil }},
			StartTimeout: time.Minute,
		},
		Sessions: sessions,
		Stops:    stops,
		Stdout:   io.Discard,
		Stderr:   io.Discard,
		Follow: func(e launcher.Event) {
			if _, is := e.(launcher.Started); is {
				close(started)
			}
		},
	}
	for _, m := range machines {
		m.Disk = fake.NewDisk(map[string]string{"/gorun": "build one"})
	}
	w := newWatch(&settings.Options{}, p, sessions)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer w.Close()
		r, err := launcher.Run(t.Context(), p, opts)
		check.OK(t, err)
		for _, lost := range r.Lost {
			check.Equal(t, lost.Host, "h1", fmt.Sprint(lost.Err))
		}
	}()
	<-started
	a := asking{
		hostRequests: hostRequests{sessions: sessions, watched: w},
		t:            t,
		others: func(rank int) bool {
			h := p.Host(rank)
			return h != nil && h.Name == "h0"
		},
		broken: func() bool { return len(sessions.All()) < 2 },
	}
	var work sync.WaitGroup
	for _, request := range []func(){a.stacks, a.pulses, a.processes, a.watch, a.exec,
		func() { a.post("signal", map[string]any{}) }} {
		work.Go(request)
	}
	work.Wait()
	a.stacks()
	stops <- launcher.Stop{Reason: launcher.Interrupted, Now: true}
	<-ended
}
