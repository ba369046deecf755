package plan

import (
	"errors"
	"fmt"

	"github.com/gorun/gorun/hostfile"
)

// Part is a program's share of a plan whose programs have hosts of their own.
type Part struct {
	NP    int // number of ranks
	Hosts []hostfile.Host
}

// Join plans every part on the slots that the parts before it have left on its hosts, and joins the
// plans: ranks are numbered part after part. A host of several parts has the largest number of
// slots that a part gives it, and is in the plan once. Join ignores req.NP. It is pure.
func Join(parts []Part, req Request) (Plan, error) {
	if len(parts) == 0 {
		return Plan{}, errors.New("there is no program to run")
	}
	pool, index := poolOf(parts)
	plan := Plan{}
	for _, part := range parts {
		sub, err := planPart(part, pool, index, req)
		if err != nil {
			return Plan{}, fmt.Errorf("the program of %s: %w", RanksOf(plan.Size, part.NP), err)
		}
		for _, h := range sub.Hosts {
			to := &pool[index[place(h.Host)]]
			for _, r := range h.Ranks {
				r.Rank += plan.Size
				r.LocalRank = len(to.Ranks)
				to.Ranks = append(to.Ranks, r)
			}
		}
		plan.Size += sub.Size
	}
	if plan.Size > MaxRanks {
		return Plan{}, fmt.Errorf("%d ranks: a job has 1 to %d", plan.Size, MaxRanks)
	}
	for _, h := range pool {
		if len(h.Ranks) > 0 {
			plan.Hosts = append(plan.Hosts, h)
		}
	}
	setCross(plan.Hosts)
	plan.warnOfFull()
	return plan, nil
}

// place returns the identity of a host: parts with equal ones share the host.
func place(h hostfile.Host) hostfile.Host {
	return hostfile.Host{Name: h.Name, User: h.User, Port: h.Port}
}

// poolOf returns the hosts of all parts without ranks, in order of appearance.
func poolOf(parts []Part) (pool []Host, index map[hostfile.Host]int) {
	index = map[hostfile.Host]int{}
	for _, part := range parts {
		for _, h := range part.Hosts {
			i, known := index[place(h)]
			if !known {
				index[place(h)] = len(pool)
				pool = append(pool, Host{Host: h})
				continue
			}
			host := &pool[i]
			host.Slots = max(host.Slots, h.Slots)
			host.GPUs = max(host.GPUs, h.GPUs)
			if h.MaxSlots > 0 && (host.MaxSlots == 0 || h.MaxSlots < host.MaxSlots) {
				host.MaxSlots = h.MaxSlots
			}
		}
	}
	return pool, index
}

// planPart plans one part on the slots that are left on its hosts or, where they are too few
// and that is allowed, on all slots once more.
func planPart(part Part, pool []Host, index map[hostfile.Host]int, req Request) (Plan, error) {
	var free, all []hostfile.Host
	left := 0
	for _, h := range part.Hosts {
		host := pool[index[place(h)]]
		used := len(host.Ranks)
		h = host.Host
		if h.MaxSlots > 0 {
			if h.MaxSlots -= used; h.MaxSlots <= 0 {
				continue
			}
		}
		all = append(all, h)
		if h.Slots -= used; h.Slots > 0 {
			free = append(free, h)
			left += h.Slots
		}
	}
	req.NP = part.NP
	switch {
	case part.NP <= left && left > 0:
		return New(free, req)
	case req.NoOversubscribe:
		return Plan{}, &SlotsError{NP: part.NP, Slots: left, Hosts: len(part.Hosts)}
	case len(all) == 0 && len(part.Hosts) > 0:
		return Plan{}, &SlotsError{
			NP:       part.NP,
			Slots:    0,
			Hosts:    len(part.Hosts),
			MaxSlots: true,
		}
	}
	return New(all, req)
}

// warnOfFull warns of hosts that have more ranks than slots.
func (p *Plan) warnOfFull() {
	full := Plan{}
	slots := 0
	for _, h := range p.Hosts {
		if len(h.Ranks) > h.Slots {
			full.Hosts = append(full.Hosts, h)
			full.Size += len(h.Ranks)
			slots += h.Slots
		}
	}
	if len(full.Hosts) > 0 {
		p.Warnings = append(p.Warnings, full.overfull(slots))
	}
}

// RanksOf names n ranks from first on: "rank 3", "ranks 0-3".
func RanksOf(first, n int) string {
	if n == 1 {
		return fmt.Sprintf("rank %d", first)
	}
	return fmt.Sprintf("ranks %d-%d", first, first+n-1)
}
