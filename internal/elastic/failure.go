package elastic

import (
	"fmt"
	"syscall"
	"time"
)

const (
	// quickTime and quickTimes: a program that fails so early, so often and always alike will always fail.
	quickTime  = 30 * time.Second
	quickTimes = 3
)

// quick is how often a rank or a slot failed early and alike, in a row.
type quick struct{ code, times int }

// counts says whether the failure of a process can be what ends the job: those of newcomers are not, while the epoch in force goes on.
func (d *Driver) counts(p *process) bool {
	return p.life != stopping && (d.member(p) || d.inForce == nil || d.broken)
}

// failed takes note of a failure of a process that is about to be forgotten, or to be stopped.
func (d *Driver) failed(p *process, f Failure) {
	if p.life == stopping {
		return
	}
	f.Process, f.Rank = p.Process, p.rank
	d.note(NoteFailed, p.Host, "rank %d on %s %s", p.rank, p.Host, f.Text)
	if d.counts(p) {
		d.blame(f)
	}
	if d.member(p) {
		d.host(p.Host).owed[p.Local] = true
		d.breakUp()
	}
	if f.Victim || d.ending || d.finishing {
		return
	}
	if own(f.Code) && !d.cfg.Together && d.counts(p) && (d.again(p.Slot, p, f.Code) || d.again(p.rank, p, f.Code)) {
		d.end(f.Code, fmt.Sprintf("rank %d fails again and again soon after its start: it %s", p.rank, f.Text), false)
		return
	}
	budget := d.cfg.Budget
	if f.Code == CodeNoRank { // which no program has brought about: a large budget is for those that fail
		budget = min(budget, usualBudget)
	}
	if h := d.host(p.Host); h.overspent(budget, d.cfg.BudgetTime, d.now) {
		wait := h.rest(d.cfg.Cooldown, d.cfg.Random(), d.now)
		d.note(NoteAside, h.name, "host %s: more than %d failures within %v; it gets no new ranks for %v", h.name, budget, d.cfg.BudgetTime, wait.Round(time.Second))
	}
}

// own says whether a process can have ended so by itself. SIGKILL and SIGTERM come from others: whoever sends them may stop to.
func own(code int) bool {
	return code != CodeNoRank && code != 128+int(syscall.SIGKILL) && code != 128+int(syscall.SIGTERM)
}

// again counts a failure of a rank or a slot, and says whether it is the same for the last time.
func (d *Driver) again(key any, p *process, code int) bool {
	if d.now-p.began >= quickTime {
		delete(d.quick, key)
		return false
	}
	q := d.quick[key]
	if q.code != code {
		q = quick{code: code}
	}
	q.times++
	d.quick[key] = q
	return q.times >= quickTimes
}

// blame keeps what failed first. A victim is only blamed when nothing else is known.
func (d *Driver) blame(f Failure) {
	if first := d.first; first == nil || first.Victim && !f.Victim || first.Victim == f.Victim && f.At < first.At {
		d.first = &f
	}
}
