package elastic

import "slices"

// leaving reports whether a usable slot still has a process that is being stopped.
func (d *Driver) leaving() bool {
	return slices.ContainsFunc(d.alive(), func(p *process) bool {
		h := d.host(p.Host)
		return p.life == stopping && h.usable(d.now) && p.Local < h.slots
	})
}

// survivors returns the members of the epoch in force that are in a state and may stay.
func (d *Driver) survivors(l life) []*process {
	return slices.DeleteFunc(slices.Clone(d.alive()), func(p *process) bool {
		return !d.member(p) || p.life != l || !d.welcome(p)
	})
}

// newcomers returns the slots to fill up to most ranks: first slots below others of the same host,
// so that local ranks have no gaps, then those of hosts in order of arrival.
func (d *Driver) newcomers(stay []*process, most int) []Slot {
	highest := map[string]int{}
	for _, p := range stay {
		highest[p.Host] = max(highest[p.Host], p.Local+1)
	}
	order := slices.Clone(d.hosts)
	slices.SortStableFunc(order, func(a, b *host) int { return a.arrival - b.arrival })
	var gaps, more []Slot
	for _, h := range order {
		if !h.usable(d.now) || d.now < h.restTill || highest[h.name] == 0 && d.inForce != nil &&
			!d.inForce.has(h.name) && !h.mayCome(d.cfg.Changes, d.now) {
			continue
		}
		for local := 0; local < h.slots && len(more) < most; local++ {
			slot := Slot{h.name, local}
			switch {
			case h.procs[local] != nil:
			case local < highest[h.name]:
				gaps = append(gaps, slot)
			default:
				more = append(more, slot)
			}
		}
	}
	all := append(gaps, more...)
	return all[:max(0, min(len(all), most-len(stay)))]
}

// form plans the next epoch and starts its newcomers.
func (d *Driver) form(stay []*process, slots []Slot) {
	d.epoch++
	all := d.candidates(stay)
	for _, s := range slots {
		all = append(all, d.newcomer(s))
	}
	plan := number(d.epoch, all)
	d.next = &plan
	d.nextAll = stay
	for _, m := range plan.Members {
		if m.Born == d.epoch {
			d.nextAll = append(d.nextAll, d.launch(m))
		}
	}
}

func (d *Driver) candidates(stay []*process) (all []candidate) {
	for _, p := range stay {
		all = append(all, candidate{Process: p.Process, since: p.since, arrival: d.host(p.Host).arrival})
	}
	return all
}

// newcomer returns the candidate that would be started in a slot for the newest epoch.
func (d *Driver) newcomer(s Slot) candidate {
	return candidate{Process: Process{s, d.epoch}, arrival: d.host(s.Host).arrival, fresh: true}
}

// launch starts a process with the numbers that it has as a member of the newest epoch.
func (d *Driver) launch(m Member) *process {
	p := &process{
		Process: m.Process,
		epoch:   d.epoch,
		rank:    m.Rank,
		at:      d.now,
		began:   d.now,
	}
	d.host(m.Host).procs[m.Local] = p
	d.procs = nil
	d.do(Start{Epoch: d.epoch, Member: m})
	return p
}

// allReady reports whether all newcomers of the next epoch are ready.
func (d *Driver) allReady() bool {
	return !slices.ContainsFunc(d.nextAll, func(p *process) bool { return p.life == starting })
}

// announce begins the next epoch.
func (d *Driver) announce() {
	if d.inForce != nil {
		d.count()
	}
	for _, m := range d.next.Members {
		p := d.find(m.Process)
		p.epoch = d.next.Epoch
		p.rank = m.Rank
		p.spare = false
		d.become(p, joining)
		if d.cfg.Together || d.unaware { // such ranks would not report it
			d.become(p, running)
		}
		h := d.host(m.Host)
		delete(h.owed, m.Local)
		h.found = false
	}
	d.inForce = d.next
	d.next = nil
	d.nextAll = nil
	d.planned = false
	d.aborted = false
	d.explained = false
	d.lasted = 0
	d.why = ""
	d.enter(Joining)
	d.do(Announce{Plan: *d.inForce})
	d.complete()
}

// count records the changes of the next epoch. It is a reset unless it only replaces processes that
// failed in a counted one.
func (d *Driver) count() {
	for _, h := range d.hosts {
		was := d.inForce.has(h.name)
		is := d.next.has(h.name)
		if was && !is && h.left || is && !was && h.asides > 0 {
			h.changes = append(h.changes, d.now)
		}
		h.left = h.left && !is
	}
	var fresh []Slot
	for _, m := range d.next.Members {
		if m.Born == d.next.Epoch {
			fresh = append(fresh, m.Slot)
		}
	}
	if d.cfg.Together { // count of resets as in torchrun
		if !d.planned {
			d.resets = append(d.resets, d.now)
		}
	} else if !d.planned || len(fresh) == 0 || !d.allOwed(fresh) || d.cfg.Horovodrun {
		d.resets = append(d.resets, d.now)
	}
}

func (d *Driver) allOwed(slots []Slot) bool {
	return !slices.ContainsFunc(slots, func(s Slot) bool { return !d.host(s.Host).owed[s.Local] })
}

// resetsSpent reports whether the reset limit is reached.
func (d *Driver) resetsSpent() bool {
	if d.cfg.ResetLimit == 0 {
		return false
	}
	if d.cfg.ResetWindow > 0 {
		d.resets = within(d.resets, d.cfg.ResetWindow, d.now)
	}
	return len(d.resets) >= d.cfg.ResetLimit
}
