package launcher

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// elasticOf returns the settings of a job that starts with np ranks.
func elasticOf(np int, hosts ...hostfile.Host) Elastic {
	return Elastic{Hosts: hosts, ElasticDriver: ElasticDriver{NP: np}}
}

// elasticOn runs an elastic job of two ranks on a machine, on a clock that does not wait.
func elasticOn(t *testing.T, m *fake.Machine, change func(*Options)) (Result, error) {
	t.Helper()
	settings := elasticOf(2, hostfile.Host{Name: "h0", Slots: 2})
	settings.Min = 1
	return elasticJobOn(t, m, settings, change)
}

// elasticJobOn runs any elastic job so.
func elasticJobOn(t *testing.T, m *fake.Machine, settings Elastic, change func(*Options)) (r Result, err error) {
	t.Helper()
	// outside the bubble, so in real time
	stop := time.AfterFunc(time.Minute, func() { panic("RunElastic does not return") })
	defer stop.Stop()
	synctest.Test(t, func(t *testing.T) {
		m.Disk = fake.NewDisk(map[string]string{"/opt/gorun": "build one"})
		opts := testOptions(settings.NP, &fake.Terminal{}, func(context.Context, hostfile.Host) (Host, error) {
			return m, nil
		})
		if change != nil {
			change(&opts)
		}
		r, err = RunElastic(t.Context(), settings, opts)
	})
	return r, err
}

// A host whose processes end again and again leaves little of each in memory, however large the
// frames were that they sent.
func TestEndedProcessesAreForgotten(t *testing.T) {
	const large = 4 << 20
	const times = 8
	var sizes []int64
	m := serving(func(a *fake.Agent) error {
		if a.Job.Ranks[0].Rank == 0 || len(sizes) == times {
			return a.Live(time.Now().Add(5 * time.Minute))
		}
		if err := a.Join(); err != nil {
			return err
		}
		sizes = append(sizes, heapSize())
		_ = a.Out.SendMessage(wire.TypeNote, wire.Note{Text: strings.Repeat("x", large)})
		time.Sleep(time.Second)
		return a.Finish(wire.Exit{Signal: int(syscall.SIGTERM)})
	})
	settings := elasticOf(2, hostfile.Host{Name: "h0", Slots: 2})
	settings.Min = 1
	settings.Budget = 1000
	_, err := elasticJobOn(t, m, settings, nil)
	must.That(t, len(sizes) == times, "%d processes, %v", len(sizes), err)
	grown := sizes[times-1] - sizes[1]
	check.That(t, grown < 2*large, "%d ended processes keep %d MiB", times-2, grown>>20)
}

// A host says that its processes have ended, and never that nothing of them is left: their agents
// and connections do not stay for it.
func TestEndedProcessesOfAHostAreFew(t *testing.T) {
	const times = 40
	var began, left, most atomic.Int32
	m := serving(func(a *fake.Agent) error {
		if a.Job.Ranks[0].Rank == 0 || began.Add(1) > times {
			return a.Live(time.Now().Add(5 * time.Minute))
		}
		if err := a.Join(); err != nil {
			return err
		}
		time.Sleep(time.Second)
		now := left.Add(1)
		most.Store(max(most.Load(), now))
		defer left.Add(-1)
		return errors.Join(a.Exit(wire.Exit{Signal: int(syscall.SIGTERM), Rank: a.Job.Ranks[0].Rank}), a.UntilEOF())
	})
	settings := elasticOf(2, hostfile.Host{Name: "h0", Slots: 2})
	settings.Min = 1
	settings.Budget = 1000
	r, err := elasticJobOn(t, m, settings, nil)
	check.That(t, err == nil && r.Code() == 0 && began.Load() > times, "%d processes, %v, %+v", began.Load(), err, r)
	check.That(t, most.Load() <= 2*2+maxEnded+1, "%d processes that have ended are there at a time", most.Load())
}

// The end of a job interrupts a poll of the hosts, and a warning said that they cannot be asked.
func TestPollThatTheEndInterruptsIsNoFailure(t *testing.T) {
	var polls int
	var notes []string
	m := serving(func(a *fake.Agent) error { return a.Live(time.Now().Add(time.Minute)) })
	settings := elasticOf(1, hostfile.Host{Name: "h0", Slots: 1})
	settings.Discover = func(ctx context.Context) ([]hostfile.Host, error) {
		polls++
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	r, err := elasticJobOn(t, m, settings, func(o *Options) {
		o.Note = func(text string) { notes = append(notes, text) }
	})
	check.That(t, err == nil && r.Code() == 0 && polls == 1 && len(notes) == 0,
		"%+v, %v; %d polls, notes %q", r, err, polls, notes)
}

// An agent of this machine, or of a host that a program reaches, was killed. The host counted as
// lost and fenced, and its other agents lived on with their ranks, since there is no connection to
// close; the job did not end before they did.
func TestFencedHostKeepsNoAgent(t *testing.T) {
	var lived time.Duration
	m := serving(func(a *fake.Agent) error {
		if err := a.Join(); err != nil {
			return err
		}
		if a.Job.Ranks[0].Rank == 1 {
			time.Sleep(5 * time.Second)
			return fake.ExitStatus(137)
		}
		lived = a.BeatOn(5 * time.Minute)
		return nil
	})
	r, err := elasticOn(t, m, nil)
	check.That(t, err == nil && r.Code() == CodeLaunch && len(r.Lost) == 1, "%+v, %v", r, err)
	check.That(t, lived >= 4*time.Second && lived <= 5*time.Second+elasticFence, "the other agent lived for %v", lived)
}

// In an elastic job without elastic ranks, a failed rank's last lines are reported even if they are
// not written yet.
func TestLastWordsOfRankThatAsksForNoEpoch(t *testing.T) {
	m := serving(func(a *fake.Agent) error {
		rank := a.Job.Ranks[0].Rank
		began := time.Now()
		beat := func() {
			for time.Since(began) < elastic.UnawareTime+time.Second {
				_ = a.Out.SendHeartbeat(time.Since(began))
				time.Sleep(time.Second)
			}
		}
		if rank == 0 {
			go beat()
			return obey(a)
		}
		for i, line := range []string{"begins", "works", "fails"} {
			if i == 1 {
				beat()
			}
			if err := a.Print(rank, 2, line+"\n"); err != nil {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		return a.Finish(wire.Exit{Code: 5})
	})
	r, err := elasticOn(t, m, func(o *Options) { o.Stderr = slowTerminal{} })
	check.That(t, err == nil && r.Code() == 5 && r.Cause != nil &&
		slices.Equal(r.Cause.Stderr, []string{"begins", "works", "fails"}), "%+v, %+v, %v", r, r.Cause, err)
}

// slowTerminal takes a while for whatever it shows.
type slowTerminal struct{}

func (slowTerminal) Write(p []byte) (int, error) {
	time.Sleep(time.Second)
	return len(p), nil
}

// All ranks have ended, and nobody takes the last of their output. A user who does not want to wait
// for that is heard. If a rank has failed, that stays the reason of the job's end.
func TestUserDoesNotWaitForTheLastOutput(t *testing.T) {
	for _, tc := range []struct {
		at   time.Duration // of the settings
		exit wire.Exit
		code int
	}{
		{10 * time.Second, wire.Exit{}, CodeTimeout},
		{10 * time.Second, wire.Exit{Code: 3}, 3},
	} {
		// outside the bubble, so in real time
		stop := time.AfterFunc(time.Minute, func() { panic("Run does not return") })
		w := &fake.StuckTerminal{}
		talk := func(a *fake.Agent) error {
			if err := a.Print(0, 1, strings.Repeat("x\n", 100)); err != nil {
				return err
			}
			return a.Finish(tc.exit)
		}
		r, err := runOn(t, []*fake.Machine{serving(talk)}, func(o *Options) {
			w.Release = make(chan struct{})
			stops := make(chan Stop, 1)
			o.Stdout = w
			o.Stops = stops
			time.AfterFunc(tc.at, func() { stops <- Stop{Reason: TimedOut} })
		})
		check.That(t, err == nil && r.Code() == tc.code && r.took >= tc.at && r.took <= tc.at+2*time.Second,
			"%+v, %v, after %v", r, err, r.took)
		stop.Stop()
	}
}
