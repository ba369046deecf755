package elastic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// play is a driver, and the processes that it has started, which report what a test says.
type play struct {
	t    *testing.T
	d    *Driver
	now  time.Duration
	acts []Action // since the last expect
	live map[Slot]Process
	plan Plan
	end  *End
}

func newPlay(t *testing.T, cfg Config, hosts string) *play {
	t.Helper()
	d := must.Get(New(cfg))(t)
	p := &play{t: t, d: d, live: map[Slot]Process{}}
	p.hosts(hosts)
	return p
}

// begun returns a play whose first epoch is complete.
func begun(t *testing.T, cfg Config, hosts string) *play {
	t.Helper()
	p := newPlay(t, cfg, hosts)
	p.ready()
	p.join()
	p.expect("")
	return p
}

func (p *play) step(e Event) *play {
	for _, act := range p.d.Step(e, p.now) {
		p.acts = append(p.acts, act)
		switch a := act.(type) {
		case Start:
			p.live[a.Member.Slot] = a.Member.Process
		case Announce:
			p.plan = a.Plan
		case End:
			p.end = &a
		}
	}
	return p
}

func (p *play) hosts(list string) *play {
	p.t.Helper()
	hosts := must.Get(Parse("list", []byte(strings.ReplaceAll(list, ",", "\n")), 1))(p.t)
	return p.step(Hosts{hosts})
}

func (p *play) wait(d time.Duration) *play {
	for end := p.now + d; p.now < end; {
		p.now = min(p.now+time.Second, end)
		p.step(Tick{})
	}
	return p
}

func slot(s string) Slot {
	var local int
	_, _ = fmt.Sscan(s[1:], &local)
	return Slot{s[:1], local}
}

// each calls what for the processes of slots such as "a0" and "b1"; no slots means all.
func (p *play) each(slots []string, what func(Process)) *play {
	if len(slots) == 0 {
		for s := range p.live {
			slots = append(slots, s.Host+fmt.Sprint(s.Local))
		}
		slices.Sort(slots)
	}
	for _, s := range slots {
		if proc, ok := p.live[slot(s)]; ok {
			what(proc)
		}
	}
	return p
}

func (p *play) ready(slots ...string) *play {
	return p.each(slots, func(q Process) { p.step(Ready{q}) })
}

func (p *play) join(slots ...string) *play {
	return p.each(slots, func(q Process) { p.step(Joined{q, p.plan.Epoch}) })
}

func (p *play) park(slots ...string) *play {
	return p.each(slots, func(q Process) { p.step(Parked{q, p.plan.Epoch}) })
}

func (p *play) exit(code int, slots ...string) *play {
	return p.each(slots, func(q Process) {
		delete(p.live, q.Slot)
		p.step(Exited{Process: q, Code: code})
	})
}

// recover has the ranks take part in new epochs until all slots are used that may be.
func (p *play) recover() {
	for range 4 {
		if phase := p.d.Phase(); phase == Draining || phase == Parking {
			left := p.plan.Epoch
			p.each(nil, func(q Process) { p.step(Parked{q, left}) })
		}
		p.join()
		p.ready()
	}
}

// expect compares the actions since the last expect, without notes, with want. "" accepts any.
func (p *play) expect(want string) {
	p.t.Helper()
	var got []string
	for _, act := range p.acts {
		switch a := act.(type) {
		case Start:
			got = append(got, fmt.Sprintf("start %s%d as %d/%d", a.Member.Host, a.Member.Local, a.Member.Rank,
				a.Member.Size))
		case Stop:
			got = append(got, fmt.Sprintf("stop %s%d", a.Host, a.Local))
		case Fence:
			got = append(got, "fence "+a.Host)
		case Announce:
			text := fmt.Sprintf("epoch %d:", a.Plan.Epoch)
			for _, m := range a.Plan.Members {
				text += fmt.Sprintf(" %s%d", m.Host, m.Local)
			}
			got = append(got, text)
		case Interrupt:
			got = append(got, map[bool]string{true: "abort", false: "interrupt"}[a.Abort])
		case End:
			got = append(got, fmt.Sprintf("end %d", a.Code))
		}
	}
	text := strings.Join(got, "; ")
	check.That(p.t, want == "" || text == want || (want == "nothing" && text == ""), "got  %s\nwant %s", text, want)
	p.acts = nil
}
