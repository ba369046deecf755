package seat

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/net/wire"
)

// binds reports whether a job's binding needs this host's topology.
func binds(job wire.Job) bool {
	return job.Binding.To != "" || job.Binding.CPUs != "" || slices.ContainsFunc(job.Ranks, func(r wire.Rank) bool {
		return r.Cores != ""
	})
}

// seatsFor finds the seats of all ranks of this host and checks that ranks can be bound to them.
func seatsFor(job wire.Job, h *Host) ([]Seat, error) {
	binding := job.Binding
	ranks := len(job.Ranks)
	if job.Elastic != nil {
		ranks = job.Elastic.Slots
	}
	seats, err := seats(h, binding, ranks)
	if err == nil {
		err = pick(h, job.Ranks, seats)
	}
	if err != nil {
		return nil, err
	}
	for i := range seats {
		if seats[i].CPUs == nil {
			continue
		}
		err := h.try(seats[i].CPUs)
		if err == nil {
			continue
		}
		if !binding.IfSupported && !binding.Soft {
			return nil, wire.Refusef(wire.CodeHostFailed, "leave --bind-to out, or add :if-supported to it",
				"rank %d cannot be bound to cpus %s: %v", job.Ranks[min(i, len(job.Ranks)-1)].Rank, seats[i].CPUs, err)
		}
		unbound(seats)
		break
	}
	return seats, nil
}

func unbound(seats []Seat) {
	for i := range seats {
		seats[i].CPUs = nil
	}
}

// seats divides the host among ranks, with a thread for each core; ranks on the same cores share
// the threads. It is pure.
func seats(h *Host, b wire.Binding, ranks int) ([]Seat, error) {
	all := make([]Seat, ranks)
	if b.To == "" && b.CPUs == "" {
		for i := range all {
			all[i].Threads = max(b.Each, 1)
			if b.Each == 0 {
				all[i].Threads = max(h.Cores/ranks, 1)
			}
		}
		return all, nil
	}
	bound, err := bind(h.machine, b, ranks)
	var few *topology.FewError
	switch {
	case errors.As(err, &few) && b.Soft:
		b.To = ""
		b.Each = 0
		return seats(h, b, ranks)
	case errors.As(err, &few):
		return nil, wire.Refusef(wire.CodeHostFailed, fewHint(few, b.To), "ranks cannot be bound: %v", err)
	case err != nil:
		return nil, err
	}
	sharers := map[string]int{}
	for _, cpus := range bound {
		sharers[cpus.String()]++
	}
	for i, cpus := range bound {
		threads := h.machine.CoresOf(cpus) / sharers[cpus.String()]
		if topology.Units()[b.To] > topology.Core && b.Each > 0 {
			threads = b.Each
		}
		all[i] = Seat{CPUs: cpus, Threads: max(threads, 1)}
	}
	return all, nil
}

// bind returns the hardware threads of each local rank. It is pure.
func bind(m topology.Machine, b wire.Binding, ranks int) ([]topology.Set, error) {
	if b.CPUs != "" {
		return listed(m, b.CPUs, ranks)
	}
	units := topology.Units()
	for _, name := range []string{b.To, cmp.Or(b.Over, b.To), cmp.Or(b.Number, b.To)} {
		if units[name] == 0 {
			return nil, wire.Refusef(wire.CodeHostFailed, "", "ranks cannot be bound to %q", name)
		}
	}
	if b.Cores != "" {
		var err error
		if m, err = m.Cores(b.Cores); err != nil {
			return nil, wire.Refusef(wire.CodeHostFailed, "correct --cpu-list, or leave it out", "--cpu-list %s: %v",
				b.Cores, err)
		}
	}
	return m.Bind(topology.Policy{
		Unit:     units[b.To],
		Each:     b.Each,
		Overload: b.Overload,
		Over:     units[b.Over],
		Fill:     b.Fill,
		Number:   units[b.Number],
	}, ranks)
}

// listed returns the hardware threads that --rank-cpus gives each local rank, in turn.
func listed(m topology.Machine, list string, ranks int) ([]topology.Set, error) {
	each := strings.Split(list, ",")
	bound := make([]topology.Set, ranks)
	for i := range bound {
		text := strings.ReplaceAll(each[i%len(each)], "+", ",")
		set, err := topology.ParseSet(text)
		if err == nil && (len(set) == 0 || len(m.Only(set)) < len(set)) {
			err = fmt.Errorf("this host lets ranks use cpus %s", m.IDs())
		}
		if err != nil {
			return nil, wire.Refusef(wire.CodeHostFailed, "correct --rank-cpus, or leave it out",
				"local rank %d cannot be bound to cpus %s: %v", i, text, err)
		}
		bound[i] = set
	}
	return bound, nil
}

// pick binds the ranks that a rankfile binds.
func pick(h *Host, ranks []wire.Rank, seats []Seat) error {
	for _, r := range ranks {
		if r.Cores == "" || r.LocalRank >= len(seats) {
			continue
		}
		cpus, err := h.machine.Pick(r.Cores)
		if err != nil {
			return wire.Refusef(wire.CodeHostFailed, "correct slot= of this rank in the rankfile",
				"rank %d cannot be bound: %v", r.Rank, err)
		}
		seats[r.LocalRank].CPUs = cpus
		seats[r.LocalRank].Threads = h.machine.CoresOf(cpus)
	}
	return nil
}

// fewHint is the hint for too few cores to bind ranks.
func fewHint(few *topology.FewError, to string) string {
	hint := fmt.Sprintf("or say --bind-to %s:overload-allowed or --bind-to none", to)
	switch most := few.Hold(); most {
	case 0:
		return "ask for fewer --cpus-per-rank, " + hint
	case 1:
		return "give the host 1 rank at most (-H host:1), " + hint
	default:
		return fmt.Sprintf("give the host %d ranks at most (-H host:%d), %s", most, most, hint)
	}
}

// Units counts what ranks of this host can be bound to.
func (h *Host) Units() (wire.Units, error) {
	m, err := topology.Here()
	if err != nil {
		return nil, err
	}
	units := wire.Units{}
	for name, unit := range topology.Units() {
		units[name] = m.Count(unit)
	}
	return units, nil
}
