package elastic

import (
	"fmt"
	"slices"
	"time"
)

// UnawareTime is how long the first processes may run without asking for an epoch before they count
// as unaware of epochs.
const UnawareTime = 10 * time.Second

// spawned records that a process runs. One that is replaced in every epoch asks for none.
func (d *Driver) spawned(p *process) {
	p.up = true
	p.upAt = d.now
	if d.cfg.Together {
		d.become(p, ready)
	}
}

// presume begins the first epoch of processes that do not ask for one. A rank that asks later makes
// the job elastic again. Once a rank has finished no epoch begins, and those that ask for none need
// none.
func (d *Driver) presume() {
	silent := func(p *process) bool { return p.life == starting && p.up && d.now-p.upAt >= UnawareTime }
	all := d.alive()
	if d.inForce != nil || d.unaware || len(all) == 0 || slices.ContainsFunc(all, func(p *process) bool {
		return !silent(p)
	}) {
		return
	}
	d.unaware = true
	d.note(NoteUnaware, "", "no rank has asked for an epoch within %v: they seem to run as in any job", UnawareTime)
	if d.phase.final() {
		return
	}
	for _, p := range all {
		d.become(p, ready)
	}
}

// failUnaware ends a job of ranks that are unaware of epochs, as any other job ends when a rank
// fails.
func (d *Driver) failUnaware(code int) {
	if d.unaware && !d.phase.final() {
		d.stopAll(End{Code: code, Cause: "stopped"}, false)
	}
}

// asks records that a process is aware of epochs. Where the first epoch was presumed, its members
// join it as they ask, and the job is elastic again once those of more than half of the hosts have
// asked: one host that asks does not excuse the failure of a rank that knows of no epochs.
func (d *Driver) asks(name Process) {
	p := d.find(name)
	if p == nil || p.asked {
		return
	}
	p.asked = true
	if d.unaware && (d.phase == Working || d.phase == Draining) {
		d.withdraw()
	}
	if d.member(p) && (p.life == joining || p.life == running && d.unaware) {
		d.become(p, joining)
	}
	d.unaware = d.unaware && d.strayed()
}

// withdraw takes back that the epoch in force is whole, since that was presumed.
func (d *Driver) withdraw() {
	for _, p := range d.alive() {
		if d.member(p) && p.life == running {
			d.become(p, joining)
			p.since = 0
		}
	}
	d.lastWhole = 0
	d.planned = false
	d.turnedAt = d.now
	d.enter(Joining)
}

// joinLate reports whether members of the epoch in force are too late to join it. Those of a
// presumed one have as long to ask as if they had just been started, and then to join. They may
// not ask one after the other to have longer.
func (d *Driver) joinLate() (late bool) {
	last := max(d.since, d.strayedAt) + d.cfg.Start + d.cfg.Join
	for _, p := range d.alive() {
		if !d.member(p) || p.life != joining {
			continue
		}
		by := p.at + d.cfg.Join
		if !p.asked {
			by = max(p.at, d.strayedAt) + d.cfg.Start
		}
		if d.now < min(by, last) {
			return false
		}
		late = true
	}
	return late
}

// strayed reports whether at least half of the hosts of the epoch in force, or of the first one
// while it is formed, have only ranks that have never asked for an epoch. They may know of none: a
// hostile host that asks would go on alone, and end the job as a success.
func (d *Driver) strayed() bool {
	asked := map[string]bool{}
	for _, p := range d.alive() {
		if d.member(p) || d.inForce == nil {
			if p.asked || p.silent() {
				asked[p.Host] = asked[p.Host] || p.asked
			}
		}
	}
	silent := 0
	for _, has := range asked {
		if !has {
			silent++
		}
	}
	return silent > 0 && 2*silent >= len(asked)
}

// awaitStrayed decides how long ranks that have strayed are awaited. Before an epoch was whole they
// may take long to import: they have the time in which one must come about, and the last of them as
// long as if they had just been started.
func (d *Driver) awaitStrayed() {
	late := d.phase == Parking && d.now >= d.since+d.cfg.Park
	if d.phase.final() || d.lastWhole > 0 && !late {
		return
	}
	longest := time.Duration(-1)
	for _, p := range d.alive() {
		if d.strays(p) {
			longest = max(longest, d.now-p.at)
		}
	}
	switch {
	case longest < 0 || longest < d.cfg.Start && !late || !d.strayed():
	case d.lastWhole > 0 || longest >= max(d.cfg.Start, d.cfg.Timeout):
		d.stopStrayed()
	default:
		d.strayedAt = d.now
	}
}

// strays reports whether a process is one of those for which an epoch waits, and is silent.
func (d *Driver) strays(p *process) bool { return p.silent() && (d.member(p) || d.inForce == nil) }

// silent reports whether a process runs that has not asked for an epoch.
func (p *process) silent() bool {
	return !p.asked && (p.life == starting && p.up || p.life == running || p.life == joining)
}

// stopStrayed ends a job that has strayed. It names a rank of either side, since gorun cannot know
// which of them is as its program is.
func (d *Driver) stopStrayed() {
	all := d.alive()
	such := ""
	if i := slices.IndexFunc(all, d.strays); i >= 0 {
		such = fmt.Sprintf(", such as rank %d on %s,", all[i].rank, all[i].Host)
	}
	cause := "the ranks of half of the hosts or more" + such + " seem to know nothing of epochs"
	if d.why != "" {
		cause += ", and " + d.why
	} else if i := slices.IndexFunc(all, func(p *process) bool { return p.asked }); i >= 0 {
		cause += fmt.Sprintf(", and rank %d on %s asked for one", all[i].rank, all[i].Host)
	}
	d.stopFailed(cause, "raise --elastic-timeout if ranks need longer to start")
}
