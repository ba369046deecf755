package elastic

import (
	"slices"
	"time"
)

// spares returns the ready processes that may take the place of others, at most most of them, in
// the order of hosts.
func (d *Driver) spares(most int) []*process {
	all := slices.DeleteFunc(slices.Clone(d.alive()), func(p *process) bool {
		return !p.spare || p.life != ready || !d.welcome(p)
	})
	return all[:max(0, min(len(all), most))]
}

// keepSpares starts processes in free slots until there are as many spares as there should be.
func (d *Driver) keepSpares() {
	stay := d.alive()
	lacking := d.cfg.Spares
	for _, p := range stay {
		if p.spare {
			lacking--
		}
	}
	for _, slot := range d.newcomers(stay, len(stay)+max(0, lacking)) {
		d.epoch++
		plan := number(d.epoch, append(d.candidates(d.survivors(running)), d.newcomer(slot)))
		place := slices.IndexFunc(plan.Members, func(m Member) bool { return m.Slot == slot })
		d.launch(plan.Members[place]).spare = true
	}
}

// stopSpares stops the spares whose slots are not the job's any more.
func (d *Driver) stopSpares() {
	for _, p := range d.alive() {
		if p.spare && !d.welcome(p) {
			d.stop(p, false)
		}
	}
}

// replace makes a slow member leave the epoch, as one whose slot is not the job's any more, if a
// spare is ready for its place. Its host rests, so that the next spare starts elsewhere if it can.
func (d *Driver) replace(e Slow) {
	p := d.find(e.Process)
	if p == nil || !d.member(p) || d.phase != Working || d.unaware || len(d.spares(1)) == 0 {
		return
	}
	p.slow = true
	wait := d.host(p.Host).rest(d.cfg.Cooldown, d.cfg.Random(), d.now)
	d.note(NoteAside, p.Host, "rank %d on %s %s: a spare takes its place, and host %s gets no new ranks for %v", p.rank,
		p.Host, e.Text, p.Host, wait.Round(time.Second))
}
