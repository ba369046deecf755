package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/plan"
)

// longest is more than a job takes whose hostile host has sent all that its script says.
const longest = time.Hour

// drawForm draws the form of a job of so many hosts.
func drawForm(t *testing.T, s *fake.Script, hosts int) (other func(Plan) Plan, change func(*Options)) {
	ranks := 1 + s.Next(2*hosts)
	idle := s.Flag()
	most := fake.One(s, 4, 0, 1, 100)
	anywhere := s.Flag()
	programs := 1 + s.Next(min(ranks, 3))
	tolerate := fake.One(s, TolerateNone, TolerateCodes, TolerateAll)
	codes := fake.One(s, FirstCode, HighestCode, MergedCode, OneCode)
	late := fake.One(s, 0, 5*time.Second)
	stop := fake.One(s, NotStopped, NotStopped, TimedOut, Interrupted, Hung)
	results := s.Flag()
	files := s.Flag()
	fold := s.Flag()
	other = func(p Plan) Plan {
		var all []hostfile.Host
		for _, h := range p.Hosts {
			all = append(all, h.Host)
		}
		p = must.Get(plan.New(all, Request{NP: ranks}))(t)
		if idle && most > 0 {
			p = p.WithIdle(all)
		}
		p = p.WithSpawn(most, 0)
		if anywhere {
			p = p.Anywhere()
		}
		return p
	}
	return other, func(o *Options) {
		first := o.Programs[0]
		first.Ranks = 1
		o.Programs = slices.Repeat([]Program{first}, programs)
		o.Programs[programs-1].Ranks = ranks - programs + 1
		o.Tolerate = tolerate
		o.Codes = codes
		o.MPITimeout = late
		o.Fold.On = [3]bool{1: fold, 2: fold}
		o.Fold.Prefix = func(ranks []int, _ time.Time) []byte { return fmt.Append(nil, ranks, "> ") }
		if results {
			o.ResultDir = t.TempDir()
			o.ResultLimit = 100
		}
		if files {
			o.OutputDir = t.TempDir()
		}
		if stop != NotStopped {
			stops := make(chan Stop, 1)
			o.Stops = stops
			time.AfterFunc(fake.HonestWork/2, func() { stops <- Stop{Reason: stop} })
		}
	}
}

// Whatever a hostile host says, in whatever order and form of job: gorun lives on, the job
// ends, and no honest host is blamed for it.
func FuzzSequencesOfAHost(f *testing.F) {
	fake.AddScripts(f, 100)
	f.Fuzz(func(t *testing.T, input []byte) {
		s := &fake.Script{Rest: input[:min(len(input), 1<<10)]}
		hosts := 1 + s.Next(3)
		hostile := s.Next(hosts)
		var machines []*fake.Machine
		for range hosts {
			machines = append(machines, serving(fake.Honest))
		}
		other, change := drawForm(t, s, hosts)
		play := *s
		machines[hostile] = &fake.Machine{Serve: play.Play}
		over := time.AfterFunc(time.Minute, func() { panic("Run does not return") }) // in real time
		defer over.Stop()
		r, err := runPlanned(t, machines, other, change)
		must.OK(t, err)
		checkOutcome(t, r.Result, fmt.Sprint("h", hostile))
	})
}

func FuzzSequencesOfAnElasticHost(f *testing.F) {
	fake.AddScripts(f, 100)
	f.Fuzz(func(t *testing.T, input []byte) {
		s := &fake.Script{Rest: input[:min(len(input), 1<<10)]}
		settings := elasticOf(1+s.Next(3), hostfile.Host{Name: "h0", Slots: 2}, hostfile.Host{Name: "h1", Slots: 2})
		settings.Min = 1
		switch s.Next(5) {
		case 1:
			settings.Spares = 1
		case 2:
			settings.StartOver = true
		case 3:
			settings.Together = true
		case 4:
			settings.Horovodrun = true
		}
		play := *s
		other := &fake.Machine{
			Disk:  fake.NewDisk(map[string]string{"/opt/gorun": "build one"}),
			Serve: func(a *fake.Agent) error { return play.Play(a) },
		}
		var began time.Time
		good := serving(func(a *fake.Agent) error { return a.Live(began.Add(time.Minute)) })
		r, err := elasticJobOn(t, good, settings, func(o *Options) {
			began = time.Now()
			o.Dial = func(_ context.Context, h hostfile.Host) (Host, error) {
				if h.Name == "h1" {
					return other, nil
				}
				return good, nil
			}
		})
		if failed, is := errors.AsType[*LaunchError](err); is { // a process says that it did not start
			r.Lost = failed.Hosts
			err = nil
		}
		must.OK(t, err)
		checkOutcome(t, r, "h1")
	})
}

// checkOutcome checks that a job ended in time, that its result can be shown, and whom it blames.
func checkOutcome(t *testing.T, r Result, hostile string) {
	t.Helper()
	code := r.Code()
	check.That(t, code >= 0 && code <= 255, "exit code %d", code)
	check.That(t, r.Ended < longest, "the job took %v", r.Ended)
	var texts []string
	for _, e := range r.Exits {
		texts = append(texts, e.Describe(), e.Failed, e.Remedy, e.Program)
	}
	for _, u := range r.Unkillable {
		texts = append(texts, u.String())
	}
	for _, lost := range r.Lost {
		texts = append(texts, lost.Error())
		check.That(t, lost.Host == hostile, "lost: %v", lost)
	}
	for _, failed := range r.Others {
		texts = append(texts, failed.String())
		check.That(t, failed.Host == hostile, "failed: %v", failed)
	}
	for _, host := range r.Unconfirmed {
		check.That(t, host == hostile, "%s has not reported the end of its ranks", host)
	}
	if r.Cause != nil {
		texts = append(texts, r.Cause.String(), r.Cause.AbortCause)
		// Ranks that others wait for are missing, as far as gorun can know.
		awaited := r.Cause.Exit.MPI == core.MPIAwaited || errors.As(r.Cause.Lost, new(*LateError)) ||
			errors.As(r.Cause.Lost, new(*NotSpawnedError))
		check.That(t, r.Cause.Host == hostile || awaited, "the cause is %v", r.Cause)
	}
	for _, text := range texts {
		check.That(t, prose.Plain(text) == text && !strings.Contains(text, "\n") && len(text) < 10<<10 &&
			!strings.HasSuffix(text, ": "), "not fit for a terminal: %d bytes, %.1000q", len(text), text)
	}
}
