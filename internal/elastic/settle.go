package elastic

import (
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/prose"
)

const (
	growPause = time.Minute // delay after a failed attempt to grow
	maxHold   = 8 * time.Second
)

// settle decides the actions that follow from the current state.
func (d *Driver) settle() {
	d.expire()
	d.presume()
	d.complete()
	if !d.phase.final() {
		d.dropInvalid()
	}
	switch d.phase {
	case Working:
		d.improve()
	case Broken, Parking, Forming:
		d.reform()
	case Finishing, Stranded:
		d.finish()
	}
	if d.phase == Ending && len(d.alive()) == 0 {
		d.enter(Ended)
		d.do(d.end)
	}
}

// expire enforces the deadlines of all states.
func (d *Driver) expire() {
	d.awaitStrayed()
	for _, h := range d.hosts {
		if h.lost && d.now >= h.lostAt+d.cfg.Fence {
			d.hostFenced(h)
		}
	}
	for _, p := range d.alive() {
		h := d.host(p.Host)
		if h.lost {
			continue
		}
		age := d.now - p.at
		if p.silent() {
			age = min(age, d.now-d.strayedAt)
		}
		switch {
		case p.life == stopping && age >= d.cfg.Stop:
			d.hostLost(h, fmt.Sprintf("its processes do not end within %v", d.cfg.Stop))
		case p.silent() && d.phase.final(): // it may finish, too
		case p.life == starting && age >= d.cfg.Start:
			d.processLate(p, "was not ready within %v", d.cfg.Start)
		case p.life == joining && d.phase.final() && age >= d.cfg.Join+d.cfg.Park:
			d.processLate(p, "did not ask for another epoch within %v", d.cfg.Park)
		case p.life == joining && d.phase.final() && age >= d.cfg.Join:
			d.abort() // it may wait for one that has finished
		case (p.life == running || p.life == joining) && d.parkLate():
			d.processLate(p, "did not ask for another epoch within %v", d.cfg.Park)
		}
	}
	switch {
	case d.phase == Draining && d.now >= d.since+d.cfg.Call:
		d.unheard()
	case d.phase == Joining && d.now >= d.since+d.cfg.Join && d.joinLate():
		d.breakUp()
		d.abort()
	case d.phase == Parking && d.now >= d.since+d.cfg.Park/2:
		d.abort()
	}
}

// parkLate reports whether members of an epoch that is over are too late to ask for another.
func (d *Driver) parkLate() bool {
	return d.phase == Parking && d.now >= max(d.since, d.strayedAt)+d.cfg.Park
}

// abort ends what members of the epoch in force wait for, once: only those park late then for whom
// the others wait.
func (d *Driver) abort() {
	if !d.aborted {
		d.aborted = true
		d.do(Interrupt{Epoch: d.inForce.Epoch, Abort: true})
	}
}

func (d *Driver) processLate(p *process, format string, limit time.Duration) {
	d.failed(p, Failure{Code: CodeNoRank, Text: fmt.Sprintf(format, limit), At: d.now})
	d.stop(p, false)
}

// unheard handles an interrupt that nobody answered: it stops ranks that must leave and delays
// growth.
func (d *Driver) unheard() {
	d.enter(Working)
	d.planned = false
	d.growAt = d.now + growPause
	if d.next != nil {
		d.note(NoteAbandoned, "", "no rank asked for a larger epoch within %v", d.cfg.Call)
		d.drop()
	}
	for _, p := range d.alive() {
		if d.member(p) && !d.welcome(p) {
			d.stop(p, false)
		}
	}
}

// complete marks the epoch in force whole when all members have joined.
func (d *Driver) complete() {
	if d.phase != Joining {
		return
	}
	var all []*process
	for _, p := range d.alive() {
		if d.member(p) && p.life == running {
			all = append(all, p)
		}
	}
	if len(all) < len(d.inForce.Members) {
		return
	}
	for _, p := range all {
		if p.since == 0 {
			p.since = d.inForce.Epoch
		}
	}
	d.note(NoteEpoch, "", "epoch %d: %s on %s", d.inForce.Epoch, prose.Count(len(all), "rank"),
		prose.Count(d.inForce.Members[0].Nodes, "host"))
	d.enter(Working)
	d.turnedAt = d.now
	d.lastWhole = d.inForce.Epoch
	d.first = nil
	d.waiting = false
}

// welcome reports whether a process may stay.
func (d *Driver) welcome(p *process) bool {
	h := d.host(p.Host)
	return p.life != stopping && !p.slow && h.usable(d.now) && p.Local < h.slots
}

// finish waits for the other ranks after one has exited with 0.
func (d *Driver) finish() {
	if d.inForce != nil {
		d.drop()
	}
	left := 0
	stuck := d.first != nil
	for _, p := range d.alive() {
		if d.inForce != nil && !d.member(p) {
			continue
		}
		left++
		stuck = stuck || p.life == parked || p.life == ready || p.life == stopping || d.host(p.Host).lost
	}
	switch {
	case left == 0 && d.first == nil:
		d.stopAll(End{}, false)
	case left == 0:
		d.stopFailed("a rank failed while others finished", "")
	case !stuck:
		d.enter(Finishing)
	case d.phase == Finishing:
		d.enter(Stranded)
	case d.now < d.since+d.cfg.Finish:
	case d.first == nil && d.cfg.OneIsEnough:
		d.stopAll(End{}, false)
	default:
		d.stopFailed("a rank has finished, and others cannot go on without it", "")
	}
}

// drop abandons the epoch being formed and stops its newcomers, whose numbers fit no other epoch.
func (d *Driver) drop() {
	if d.next == nil {
		return
	}
	for _, p := range d.nextAll {
		if p.Born == d.next.Epoch && d.find(p.Process) == p {
			d.stop(p, false)
		}
	}
	d.next = nil
	d.nextAll = nil
}

// dropInvalid abandons the plan if a member has ended or may not stay.
func (d *Driver) dropInvalid() {
	for _, p := range d.nextAll {
		if d.find(p.Process) != p || !d.welcome(p) {
			d.drop()
			return
		}
	}
}

// improve removes and adds processes while a whole epoch runs.
func (d *Driver) improve() {
	d.stopSpares()
	for _, p := range d.alive() {
		if d.member(p) && !d.welcome(p) {
			d.drop()
			d.drain()
			return
		}
	}
	switch {
	case d.next != nil && d.allReady():
		d.drain()
	case d.next == nil && !d.unaware && d.now >= d.growAt && !d.leaving():
		stay := d.survivors(running)
		spares := d.spares(d.cfg.Max - len(stay))
		stay = append(stay, spares...)
		newcomers := d.newcomers(stay, d.cfg.Max)
		switch {
		case len(newcomers)+len(spares) == 0:
			d.keepSpares()
		case d.resetsSpent() && (len(spares) > 0 || !d.allOwed(newcomers)):
		case d.cfg.Together:
			d.drain()
		default:
			d.form(stay, newcomers)
			if d.cfg.Horovodrun && slices.ContainsFunc(newcomers, func(s Slot) bool { return d.host(s.Host).found }) {
				d.drain()
			}
		}
	}
}

// drain ends an epoch that could go on.
func (d *Driver) drain() {
	d.enter(Draining)
	d.planned = true
	d.interrupt()
}

// interrupt asks the ranks to park, or stops those that cannot.
func (d *Driver) interrupt() {
	if !d.cfg.Together {
		d.do(Interrupt{Epoch: d.inForce.Epoch})
		return
	}
	for _, p := range d.alive() {
		if d.member(p) {
			d.stop(p, false)
		}
	}
}

// reform begins the first epoch, or the next one when the last is over.
func (d *Driver) reform() {
	if d.phase == Broken {
		d.enter(Parking)
		d.interrupt()
	}
	if !d.over() {
		return
	}
	if d.phase == Parking {
		d.judge()
		d.chargeVictims()
		d.leaveOut()
		d.enter(Forming)
	}
	for _, p := range d.alive() {
		if d.member(p) && !d.welcome(p) {
			d.stop(p, false)
		}
	}
	d.stopSpares()
	if d.next == nil {
		d.choose()
	}
	if d.next != nil && d.allReady() {
		d.announce()
	}
}

// choose forms the next epoch, or ends the job if none is possible.
func (d *Driver) choose() {
	stay := d.survivors(parked)
	lost := d.lastWhole > 0 && !d.cfg.StartOver && !slices.ContainsFunc(stay, func(p *process) bool {
		return p.since > 0
	})
	switch {
	case lost:
		d.stopFailed("no rank that has the job's state is left", "start the job again, from its last checkpoint; "+
			"with ranks on several hosts (-H f1:2,f2:2) the state outlives the loss of one")
	case d.inForce != nil && d.resetsSpent():
		limit, flag := d.limit()
		d.stopFailed(fmt.Sprintf("the limit of %s is reached", limit), "raise "+flag)
	case d.now-d.turnedAt >= d.cfg.Timeout && d.tries > 0:
		d.stopFailed(fmt.Sprintf("no epoch has come about within %v", d.cfg.Timeout)+d.lastEnd(), "raise "+
			"--elastic-timeout if ranks need longer to start; gorun -v shows what each host does")
	case d.shaky >= provenTimes && d.now-d.shakyAt >= d.cfg.Timeout:
		d.stopFailed(fmt.Sprintf("no epoch has lasted %v for %v", quickTime, d.cfg.Timeout)+d.lastEnd(),
			"gorun -v shows what each host does")
	case d.now >= d.since+d.hold():
		d.begin(stay)
	}
}

// lastEnd continues a text with what has ended the last epoch, if that is known.
func (d *Driver) lastEnd() string {
	if d.why == "" {
		return ""
	}
	return "; the last one ended when " + d.why
}

// limit describes the reset limit and returns its flag. A job whose ranks are replaced together
// counts restarts.
func (d *Driver) limit() (text, flag string) {
	if d.cfg.Together {
		return prose.Count(d.cfg.ResetLimit, "restart"), "--max-restarts"
	}
	return prose.Count(d.cfg.ResetLimit, "reset"), "--reset-limit"
}

// over reports whether no process can be working any more.
func (d *Driver) over() bool {
	for _, h := range d.hosts {
		if h.lost {
			return false
		}
	}
	for _, p := range d.alive() {
		if d.member(p) && p.working() {
			return false
		}
	}
	return true
}

// judge counts epochs that ended without a known reason, and delays the next after them. A hostile
// host could end each one, and have a failure explain some.
func (d *Driver) judge() {
	if d.lasted >= quickTime {
		d.shaky = 0
	}
	if d.wasWhole() && (d.first != nil || d.planned) {
		d.tries = 0
		return
	}
	d.tries++
	if d.lasted >= quickTime {
		return
	}
	if d.shaky++; d.shaky == 1 {
		d.shakyAt = d.now
	}
}

// leaveOut stops members that were in no whole epoch, after two that have come to nothing with
// them, if the others are enough. One of them may be why, and their hosts rest.
func (d *Driver) leaveOut() {
	newcomers := d.survivors(parked)
	all := len(newcomers)
	newcomers = slices.DeleteFunc(newcomers, func(p *process) bool { return p.since > 0 })
	if proven := all - len(newcomers); d.tries < 2 || proven < d.cfg.Min {
		return
	}
	rested := map[string]bool{}
	for _, p := range newcomers {
		if h := d.host(p.Host); !rested[h.name] {
			rested[h.name] = true
			wait := h.rest(d.cfg.Cooldown, d.cfg.Random(), d.now)
			d.note(NoteAside, h.name, "host %s: no epoch has come about with its new ranks%s; it gets none%s", h.name,
				d.lastEnd(), forTime(wait))
		}
		d.stop(p, false)
	}
}

func (d *Driver) hold() time.Duration {
	if d.tries < 2 {
		return 0
	}
	return min(time.Second<<min(d.tries-2, 10), maxHold)
}

// begin forms an epoch of the survivors and spares, with newcomers only if they are too few.
func (d *Driver) begin(stay []*process) {
	least := d.cfg.Min
	most := d.cfg.Max
	if d.lastWhole == 0 && !d.cfg.Horovodrun {
		most = d.cfg.NP
	}
	if d.epoch == 0 {
		least = d.cfg.NP
	}
	stay = append(stay, d.spares(most-len(stay))...)
	if len(stay) >= least && slices.ContainsFunc(stay, func(p *process) bool { return p.since > 0 }) {
		d.form(stay, nil)
		return
	}
	if d.leaving() {
		return
	}
	newcomers := d.newcomers(stay, most)
	late := d.now-d.turnedAt >= d.cfg.Timeout
	switch have := len(stay) + len(newcomers); {
	case have >= least && !late:
		d.form(stay, newcomers)
	case late:
		d.stopFailed(fmt.Sprintf("%s could run, and there must be %d, for %v", prose.Count(have, "rank"), least,
			d.cfg.Timeout), "add hosts, lower --min-np, or wait longer with --elastic-timeout")
	case !d.waiting:
		d.waiting = true
		d.note(NoteWaiting, "", "%s could run, and there must be %d: waiting for hosts", prose.Count(have, "rank"),
			least)
	}
}
