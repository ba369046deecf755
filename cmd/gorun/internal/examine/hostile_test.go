package examine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/doctor/probe"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher"
)

// say prints a line of a probe.
func say(a *fake.Agent, line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	return a.Print(a.Job.Ranks[0].Rank, 1, string(text)+"\n")
}

// measured prints what a good host measures of itself and of its links, but for some.
func measured(a *fake.Agent, but ...int) error {
	facts := doctor.Facts{Processor: doctor.Processor{Cores: 4}, Kernel: "6.1"}
	err := errors.Join(say(a, probe.Line{Facts: &facts}),
		say(a, probe.Line{Speed: &doctor.Speed{Copy: 1e10, Flops: 1e9, Share: 1}}))
	for to := a.Job.Ranks[0].Rank + 1; to < a.Job.Size; to++ {
		if slices.Contains(but, to) {
			continue
		}
		err = errors.Join(err, say(a, probe.Line{Link: &doctor.Link{
			From: a.Job.Ranks[0].Rank,
			To:   to,
			RTT:  1e-4,
			Out:  1e9,
			In:   1e9,
			Sent: [2]int64{1000, 1000},
		}}))
	}
	return err
}

// honest is the agent of a good host. It does as it is told.
func honest(a *fake.Agent) error {
	if a.Ready() != nil {
		return nil // only a login
	}
	rank := a.Job.Ranks[0].Rank
	gone := make(chan struct{})
	stop := make(chan struct{}, 1)
	go func() {
		defer close(gone)
		for f, err := a.Frames.Next(); err == nil; f, err = a.Frames.Next() {
			if f.Type == wire.TypeStop && len(stop) == 0 {
				stop <- struct{}{}
			}
		}
	}()
	end := wire.Exit{Rank: rank}
	for range 10 + rank%2 { // not all end at once
		_ = a.Out.SendHeartbeat(0)
		select {
		case <-time.After(time.Second):
			continue
		case <-gone:
			return nil
		case <-stop:
			end.Signal = 15
			end.Stopped = true
		}
		break
	}
	if !end.Stopped {
		_ = measured(a)
		_ = say(a, probe.Line{Finished: true})
	}
	_ = a.Exit(end)
	_ = a.Out.Send(wire.TypeDone, 0, nil)
	<-gone
	return nil
}

// examination examines good hosts, but for those that serve says of, by their indexes.
func examination(t *testing.T, hosts int, serve map[int]func(*fake.Agent) error) (r Report, took time.Duration) {
	t.Helper()
	over := time.AfterFunc(time.Minute, func() { panic("Run does not return") }) // in real time
	defer over.Stop()
	synctest.Test(t, func(t *testing.T) {
		var all []hostfile.Host
		machines := map[string]*fake.Machine{}
		for i := range hosts {
			name := fmt.Sprint("h", i)
			all = append(all, hostfile.Host{Name: name, Slots: 1})
			disk := fake.NewDisk(map[string]string{"/opt/gorun": "build one"})
			machines[name] = &fake.Machine{Disk: disk, Serve: honest}
			if serve[i] != nil {
				machines[name].Serve = serve[i]
			}
		}
		e := Examiner{Level: "quick", Note: t.Logf,
			Job: func(p launcher.Plan, argv []string) (launcher.Options, error) {
				return launcher.Options{
					Programs:   []launcher.Program{{Argv: argv, Wdir: "/", Ranks: p.Size}},
					MPITimeout: 5 * time.Second, // as --start-timeout sets it
					Reach: launcher.Reach{
						Dial: func(_ context.Context, h hostfile.Host) (launcher.Host, error) {
							return machines[h.Name], nil
						},
						Exe: launcher.Executable{Path: "/opt/gorun", Build: "one",
							Hash: func() (string, error) { return strings.Repeat("0", 64), nil }},
					},
				}, nil
			}}
		began := time.Now()
		r = must.Get(e.Run(t.Context(), all, nil))(t)
		took = time.Since(began)
		synctest.Wait()
	})
	return r, took
}

// checkVerdict checks that only hostile hosts are bad.
func checkVerdict(t *testing.T, r Report, hostile ...string) {
	t.Helper()
	for _, name := range r.Bad {
		check.That(t, slices.Contains(hostile, name), "%s is bad: %+v", name, r.Findings)
	}
	for _, f := range r.Findings {
		named := slices.Contains(hostile, f.Host) || slices.Contains(hostile, f.With)
		check.That(t, f.Severity != doctor.Bad || named, "%+v", f)
	}
}

// A hostile host names no other host as the bad one, whatever it pretends.
func TestHostileHostIsTheBadOne(t *testing.T) {
	for name, life := range map[string]func(a *fake.Agent) error{
		"nothing": func(*fake.Agent) error { return nil },
		"waits in MPI": func(a *fake.Agent) error {
			return a.Out.SendMessage(wire.TypeFence,
				wire.Fence{Name: "pmix/x", Values: map[int][]byte{a.Job.Ranks[0].Rank: nil}})
		},
		"waits elsewhere": func(a *fake.Agent) error {
			return a.Out.SendMessage(wire.TypeFence,
				wire.Fence{Name: "x", Values: map[int][]byte{a.Job.Ranks[0].Rank: nil}})
		},
		"entered MPI": func(a *fake.Agent) error {
			return a.Out.SendMessage(wire.TypeEntered, wire.Entered{Ranks: []int{a.Job.Ranks[0].Rank}})
		},
		"is alone": func(a *fake.Agent) error {
			return errors.Join(measured(a), say(a, probe.Line{Alone: true}))
		},
		"loses others": func(a *fake.Agent) error {
			err := measured(a)
			for rank := range a.Job.Size {
				err = errors.Join(err, a.Out.SendMessage(wire.TypeLost, wire.Lost{By: a.Job.Ranks[0].Rank, Rank: rank}))
			}
			return errors.Join(err, a.Exit(wire.Exit{Rank: a.Job.Ranks[0].Rank, Code: 1}))
		},
		"blames half": func(a *fake.Agent) error {
			err := measured(a, 1, 2)
			for _, to := range []int{1, 2} {
				link := doctor.Link{From: a.Job.Ranks[0].Rank, To: to, Error: "no answer in time"}
				err = errors.Join(err, say(a, probe.Line{Link: &link}))
			}
			return errors.Join(err, say(a, probe.Line{Finished: true}), a.Finish(wire.Exit{}))
		},
	} {
		r, took := examination(t, 5, map[int]func(*fake.Agent) error{0: func(a *fake.Agent) error {
			if a.Ready() != nil {
				return nil
			}
			if err := life(a); err != nil {
				return err
			}
			go a.UntilEOF()
			for a.Ctx.Err() == nil && a.Out.SendHeartbeat(0) == nil {
				time.Sleep(time.Second)
			}
			return nil
		}})
		t.Run(name, func(t *testing.T) {
			checkVerdict(t, r, "h0")
			check.That(t, took < time.Hour, "%v", took)
		})
	}
}

// Hosts that fail one after the other leave nothing to say of those that were never measured.
func TestFailuresOneAfterTheOtherBlameNoOther(t *testing.T) {
	serve := map[int]func(*fake.Agent) error{}
	for i := range 5 {
		serve[i] = func(a *fake.Agent) error {
			f, err := a.Expect(wire.TypeJob)
			if err != nil {
				return nil
			}
			must.OK(t, f.Decode(&a.Job))
			if a.Job.Size == 6-i {
				return a.Out.SendMessage(wire.TypeRefuse, wire.Refuse{Code: 125, What: "no"})
			}
			must.OK(t, a.Out.SendMessage(wire.TypeReady, wire.Ready{}))
			return a.UntilEOF()
		}
	}
	r, _ := examination(t, 6, serve)
	checkVerdict(t, r, "h0", "h1", "h2", "h3", "h4")
}

// answer draws a line of a probe.
func answer(s *fake.Script, self int) any {
	number := func() any { return fake.One[any](s, s.Number(), 1e308, -1e308, 5e-324, 1e-4, 1e9) }
	switch s.Next(8) {
	case 0:
		return map[string]any{"facts": map[string]any{
			"cores":    s.Number(),
			"quota":    number(),
			"memory":   s.Number(),
			"kernel":   s.Text(),
			"machine":  s.Text(),
			"nvidia":   s.Flag(),
			"versions": map[string]string{"torch": s.Text(), s.Text(): s.Text()},
			"limits":   map[string]uint64{"nofile": uint64(s.Number())},
			"disks":    []any{map[string]any{"path": s.Text(), "size": s.Number(), "fsync": number()}},
			"busy":     []any{map[string]any{"pid": s.Number(), "name": s.Text(), "cpu": number()}},
			"steal":    number(),
		}}
	case 1:
		return map[string]any{"speed": map[string]any{"copy": number(), "flops": number(), "share": number()}}
	case 2:
		return probe.Line{Waited: &probe.Waited{From: s.Any(), Share: 1}}
	case 3:
		return probe.Line{Alone: true}
	case 4:
		return probe.Line{Finished: true}
	}
	return map[string]any{"link": map[string]any{
		"from":    fake.Oddly(s, self, s.Any()),
		"to":      fake.Oddly(s, self+1+s.Next(3), s.Any()),
		"error":   fake.One(s, "", "", s.Text()),
		"stalled": fake.One(s, "", "", "both", s.Text()),
		"rtt":     number(),
		"out":     number(),
		"in":      number(),
		"sent":    []int64{s.Number(), s.Number()},
		"resent":  []int64{s.Number(), s.Number()},
		"offset":  number(),
		"into":    s.Text(),
		"back":    s.Text(),
		"busy":    number(),
	}}
}

// Whatever a hostile host says, in whatever order, to those that ask and as the agent of its probe:
// the examination ends, and no other host is bad but for one link that the hostile one tells of.
func FuzzExaminationsOfAHost(f *testing.F) {
	fake.AddScripts(f, 40)
	f.Fuzz(func(t *testing.T, input []byte) {
		s := &fake.Script{Rest: input[:min(len(input), 1<<10)]}
		hosts := 4 + s.Next(2)
		hostile := s.Next(hosts)
		r, took := examination(t, hosts, map[int]func(*fake.Agent) error{hostile: func(a *fake.Agent) error {
			play := *s
			return play.PlayWith(a, func() error {
				if len(a.Job.Ranks) == 0 {
					return play.Errand(a)
				}
				return say(a, answer(&play, a.Job.Ranks[0].Rank))
			})
		}})
		check.That(t, took < time.Hour, "it took %v", took)
		name := fmt.Sprint("h", hostile)
		others := slices.DeleteFunc(r.Bad, func(bad string) bool { return bad == name })
		for _, bad := range others {
			linked := slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool {
				return f.Severity == doctor.Bad && f.Host == name && f.With == bad
			})
			check.That(t, len(others) == 1 && linked, "%s is bad: %+v", bad, r.Findings)
		}
		for _, f := range r.Findings {
			check.That(t, f.Severity != doctor.Bad || f.Host == name || f.With == name, "%+v", f)
			check.That(t, prose.Plain(f.Text+f.Fix) == f.Text+f.Fix && len(f.Text) < 10<<10, "%.300q", f.Text+f.Fix)
		}
		var page strings.Builder
		check.OK(t, r.WriteText(&page))
		check.OK(t, r.WriteHTML(&page, []Report{r}))
		check.OK(t, json.NewEncoder(&page).Encode(r))
	})
}
