package elastic

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

const (
	// A process that ends within quickTime of its start, with the same code as those started in its
	// slot before it, will end so again: after quickTimes in a row before the job's first whole
	// epoch. Later the program works, and others may have caused it: after provenTimes between
	// which no other slot failed. Failures that are quickMemory apart are not in a row.
	// As many epochs that last no longer end the job after [Config.Timeout].
	quickTime   = 30 * time.Second
	quickTimes  = 3
	provenTimes = 10
	quickMemory = 2 * time.Minute
)

// quick counts consecutive early failures in a slot with the same code.
type quick struct {
	code, times int
	at          time.Duration // time of the last failure
}

// counts reports whether the failure of a process can end the job. Failures of newcomers and spares
// cannot while the epoch in force goes on or finishes.
func (d *Driver) counts(p *process) bool {
	finishes := d.phase.final() && d.inForce != nil
	return p.life != stopping && (d.member(p) || !d.underway() && !finishes)
}

// failed records the failure of a process that is about to be forgotten or stopped.
func (d *Driver) failed(p *process, f Failure) {
	if p.life == stopping {
		return
	}
	f.Process = p.Process
	f.Rank = p.rank
	d.note(NoteFailed, p.Host, "rank %d on %s %s", p.rank, p.Host, f.Text)
	if d.counts(p) {
		d.blame(f)
	}
	if d.member(p) {
		d.host(p.Host).owed[p.Local] = true
		d.breakUp()
	}
	h := d.host(p.Host)
	switch {
	case d.phase.final():
		return
	case d.cfg.Horovodrun: // any failure counts, as in horovodrun
		d.exclude(h)
		return
	case f.Victim:
		if !slices.ContainsFunc(d.victims, func(v victim) bool { return v.host == h }) {
			d.victims = append(d.victims, victim{h, f.Code})
		}
		return
	}
	if !d.cfg.Together && d.again(p, f.Code) {
		cause := fmt.Sprintf("rank %d fails again and again soon after its start: it %s", p.rank, f.Text)
		d.stopAll(End{Code: f.Code, Cause: cause}, false)
		return
	}
	d.charge(h, f.Code)
}

// charge counts a failure against a host, which rests if there are too many.
func (d *Driver) charge(h *host, code int) {
	budget := d.cfg.Budget
	if code == CodeNoRank { // not a program's failure, so a budget raised for failing programs does not apply
		budget = min(budget, usualBudget)
	}
	if h.overspent(budget, d.cfg.BudgetTime, d.now) {
		wait := h.rest(d.cfg.Cooldown, d.cfg.Random(), d.now)
		d.note(NoteAside, h.name, "host %s: more than %d failures within %v; it gets no new ranks for %v", h.name,
			budget, d.cfg.BudgetTime, wait.Round(time.Second))
	}
}

// victim is a host with a rank that failed because of others, as the host says.
type victim struct {
	host *host
	code int
}

// chargeVictims counts the failures of victims of the epoch that is over, once for each host, if
// none is known in it of which they are victims: a host that says so could fail without end.
func (d *Driver) chargeVictims() {
	if !d.explained {
		for _, v := range d.victims {
			d.charge(v.host, v.code)
		}
	}
	d.victims = nil
}

// exclude sets a host aside after a failure, as horovodrun does, with its other processes. A job
// whose hosts are all set aside ends.
func (d *Driver) exclude(h *host) {
	wait := h.exclude(d.cfg.Cooldown, d.cfg.Random(), d.now)
	d.note(NoteAside, h.name, "host %s is set aside after a failure: it gets no ranks%s", h.name, forTime(wait))
	if !slices.ContainsFunc(d.hosts, func(h *host) bool { return h.usable(d.now) }) {
		d.stopFailed("every host was set aside after a failure",
			"--blacklist-cooldown-range 10,300 lets hosts come back")
		return
	}
	for _, p := range h.alive() {
		d.stop(p, false)
	}
}

// own reports whether the process could have failed by itself. SIGKILL and SIGTERM come from
// outside and may not recur.
func own(code int) bool {
	return code != CodeNoRank && code != wire.SignalCode(syscall.SIGKILL) && code != wire.SignalCode(syscall.SIGTERM)
}

// again counts a failure in a slot, and reports whether it has recurred too often.
func (d *Driver) again(p *process, code int) bool {
	if d.lastWhole > 0 {
		maps.DeleteFunc(d.quick, func(other Slot, _ quick) bool { return other != p.Slot })
	}
	if d.now-p.began >= quickTime || !own(code) {
		delete(d.quick, p.Slot)
		return false
	}
	q := d.quick[p.Slot]
	if q.code != code || d.now-q.at >= quickMemory {
		q = quick{code: code}
	}
	if d.counts(p) {
		q.times++
	}
	q.at = d.now
	d.quick[p.Slot] = q
	if d.lastWhole > 0 {
		return q.times >= provenTimes
	}
	return q.times >= quickTimes
}

// blame keeps the first failure. A victim is the cause only if no other failure is known.
func (d *Driver) blame(f Failure) {
	d.explained = d.explained || !f.Victim
	if first := d.first; first == nil || first.Victim && !f.Victim || first.Victim == f.Victim && f.At < first.At {
		d.first = &f
	}
}
