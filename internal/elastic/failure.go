package elastic

import (
	"fmt"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/wire"
)

const (
	// A program that fails quickTimes in a row, within quickTime of its start and with the same code, will fail again.
	quickTime  = 30 * time.Second
	quickTimes = 3
)

// quick counts consecutive early failures of a rank or a slot with the same code.
type quick struct{ code, times int }

// counts reports whether the failure of a process can end the job. Failures of newcomers cannot while the epoch in force goes on.
func (d *Driver) counts(p *process) bool {
	return p.life != stopping && (d.member(p) || !d.underway())
}

// failed records the failure of a process that is about to be forgotten or stopped.
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
	if f.Victim || d.phase.final() {
		return
	}
	if own(f.Code) && !d.cfg.Together && d.counts(p) && (d.again(p.Slot, p, f.Code) || d.again(p.rank, p, f.Code)) {
		d.stopAll(f.Code, fmt.Sprintf("rank %d fails again and again soon after its start: it %s", p.rank, f.Text), false)
		return
	}
	budget := d.cfg.Budget
	if f.Code == CodeNoRank { // not a failure of the program, so a budget raised for failing programs does not apply
		budget = min(budget, usualBudget)
	}
	if h := d.host(p.Host); h.overspent(budget, d.cfg.BudgetTime, d.now) {
		wait := h.rest(d.cfg.Cooldown, d.cfg.Random(), d.now)
		d.note(NoteAside, h.name, "host %s: more than %d failures within %v; it gets no new ranks for %v", h.name, budget, d.cfg.BudgetTime, wait.Round(time.Second))
	}
}

// own reports whether the process could have failed by itself. SIGKILL and SIGTERM come from outside and may not recur.
func own(code int) bool {
	return code != CodeNoRank && code != wire.SignalCode(syscall.SIGKILL) && code != wire.SignalCode(syscall.SIGTERM)
}

// again counts a failure of a rank or a slot, and reports whether it has recurred too often.
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

// blame keeps the first failure. A victim is the cause only if no other failure is known.
func (d *Driver) blame(f Failure) {
	if first := d.first; first == nil || first.Victim && !f.Victim || first.Victim == f.Victim && f.At < first.At {
		d.first = &f
	}
}
