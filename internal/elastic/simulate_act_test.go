package elastic

import (
	"slices"
	"time"
)

func (w *world) step(event Event) {
	if w.ended || w.Fault != nil {
		return
	}
	if _, tick := event.(Tick); !tick {
		w.Note("event  %T%+v", event, event)
	}
	for _, act := range w.d.Step(event, w.Now) {
		w.Note("action %T%+v", act, act)
		if w.ended {
			w.Broken("%T after the end", act)
		}
		switch a := act.(type) {
		case Start:
			w.start(a)
		case Stop:
			w.stop(a)
		case Fence:
			w.fence(a)
		case Announce:
			w.announce(a.Plan)
		case Interrupt:
			w.interrupt(a)
		case End:
			w.finish(a)
		}
	}
	var all []*process
	for _, h := range w.d.hosts {
		all = append(all, h.alive()...)
	}
	if !slices.Equal(w.d.alive(), all) {
		w.Broken("the driver's list of processes is out of date")
	}
	if w.d.underway() && w.d.wasWhole() || w.ended {
		w.lastGood = w.Now
	}
	w.lastGood = max(w.lastGood, w.d.turnedAt) // also if it ended in the same step
	bound := w.cfg.Timeout + w.cfg.Start + w.cfg.Park + w.cfg.Stop + w.cfg.Fence + w.cfg.Join + maxHold + time.Minute
	if w.Now-w.lastGood > bound {
		w.Broken("nothing works since %v", w.lastGood)
	}
}

func (w *world) host(name string) *simHost {
	return w.hosts[slices.IndexFunc(w.hosts, func(h *simHost) bool { return h.name == name })]
}

func (w *world) start(a Start) {
	h := w.host(a.Member.Host)
	known := w.d.host(a.Member.Host)
	if a.Epoch <= w.announced || a.Epoch < w.highest || a.Member.Born != a.Epoch {
		w.Broken("start for epoch %d after %d", a.Epoch, max(w.announced, w.highest))
	}
	w.highest = a.Epoch
	if till := max(known.asideTill, known.restTill); w.Now < till || known.lost {
		w.Broken("start on %s, which is set aside until %v", h.name, till)
	}
	for _, p := range h.procs {
		if p.Slot == a.Member.Slot {
			w.Broken("start of a second process on %v", p.Slot)
		}
	}
	if a.Member.Size > w.cfg.Max+min(w.cfg.Spares, 1) || a.Member.Size < w.cfg.Min || a.Member.Rank >= a.Member.Size {
		w.Broken("start of rank %d of %d", a.Member.Rank, a.Member.Size)
	}
	if !h.up || h.cut {
		w.After(6*time.Second, func() {
			if w.oneIn(4) {
				w.step(StartFailed{a.Member.Process, CodeNoRank, errNoConnection})
			} else {
				w.step(HostLost{h.name, errNoConnection})
			}
		})
		return
	}
	p := &simProc{
		Process: a.Member.Process,
		host:    h,
		link:    h.link,
		alive:   true,
		phase:   starting,
		epoch:   a.Epoch,
	}
	p.deaf = w.crashes && w.oneIn(200)
	h.procs = append(h.procs, p)
	switch {
	case w.crashes && w.oneIn(50) && w.Now < w.calm: // never gets ready
	case w.doomed, w.crashes && w.oneIn(30) && w.Now < w.calm:
		w.After(w.upTo(5*time.Second), func() { w.die(p, 3, 0) })
	default:
		begin := 15 * time.Second
		if w.storm {
			begin = 2 * time.Second
		}
		w.After(time.Second/2+w.upTo(begin), func() {
			if p.alive && p.phase == starting {
				p.phase = ready
				w.hear(p, func() Event { return Ready{p.Process} })
			}
		})
	}
}

func (w *world) find(name Process) *simProc {
	for _, p := range w.host(name.Host).procs {
		if p.Process == name {
			return p
		}
	}
	return nil
}

func (w *world) stop(a Stop) {
	w.After(latency, func() {
		p := w.find(a.Process)
		if p == nil || p.host.cut || p.link != p.host.link || p.deaf {
			return
		}
		was := p.phase
		p.phase = stopping
		grace := w.upTo(5 * time.Second)
		if a.Now {
			grace = 0
		}
		w.After(grace, func() {
			if p.alive {
				p.phase = was
				w.die(p, 0, 15)
			}
		})
	})
}

func (w *world) fence(a Fence) {
	h := w.host(a.Host)
	link := h.link
	procs := slices.Clone(h.procs)
	h.reported = true
	cut := h.cut
	w.After(w.upTo(w.cfg.Fence-latency), func() { // the agent's end, or the lease
		for _, p := range procs {
			w.vanish(p)
		}
		if h.link == link {
			h.link++
			if h.up && !h.cut {
				h.reported = false
			}
		}
		if !cut && w.oneIn(2) {
			w.After(latency, func() { w.step(HostFenced{h.name}) })
		}
	})
}

func (w *world) interrupt(a Interrupt) {
	if w.oneIn(30) {
		return // no rank ever commits
	}
	at := w.upTo(20 * time.Second)
	for _, h := range w.hosts {
		for _, p := range h.procs {
			switch {
			case p.epoch == a.Epoch && a.Abort:
				w.alarm(p)
			case p.epoch == a.Epoch:
				w.After(at+w.upTo(time.Second), func() {
					if p.alive && p.epoch == a.Epoch && p.phase == running {
						w.park(p)
					}
				})
			}
		}
	}
}

func (w *world) announce(plan Plan) {
	w.checkPlan(plan)
	if w.plan != nil {
		w.countChanges(plan)
	}
	w.announced = plan.Epoch
	w.plan = &plan
	w.After(latency, func() {
		for _, m := range plan.Members {
			if p := w.find(m.Process); p != nil && p.link == p.host.link && !p.host.cut {
				p.phase = joining
				p.epoch = plan.Epoch
				w.join(p, plan)
			}
		}
	})
}

// join makes a process connect to the others.
func (w *world) join(p *simProc, plan Plan) {
	w.After(w.upTo(2*time.Second), func() {
		if !p.alive || p.phase != joining || p.epoch != plan.Epoch {
			return
		}
		for _, m := range plan.Members {
			if q := w.find(m.Process); q == nil || q.epoch != plan.Epoch || q.phase != joining && q.phase != running {
				w.alarm(p)
				return
			}
		}
		p.phase = running
		w.hear(p, func() Event { return Joined{p.Process, plan.Epoch} })
		w.After(max(w.workEnd-w.Now, 0)+w.upTo(3*time.Second), func() {
			if p.alive && p.phase == running && p.epoch == plan.Epoch && w.d.wasWhole() &&
				w.d.inForce.Epoch == plan.Epoch {
				w.die(p, 0, 0)
			} else if p.alive && p.phase == running && p.epoch == plan.Epoch {
				w.After(time.Second, func() { w.die(p, 0, 0) })
			}
		})
	})
}
