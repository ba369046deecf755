package main

import (
	"context"
	"fmt"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher"
)

// countCores gives the hosts of p that are to have a slot per core their slots: as many ranks as find
// the cores they need. Other hosts than this machine are asked.
func (s surroundings) countCores(ctx context.Context, p place, perRank int) (place, error) {
	hosts := append([]hostfile.Host(nil), p.hosts...)
	var others []int // by index in hosts
	for i := range hosts {
		switch {
		case !hosts[i].Auto:
		case isLocal(hosts[i], s.hostname):
			hosts[i].Slots = autoSlots(hosts[i], s.cores(), perRank)
		default:
			others = append(others, i)
		}
	}
	p.hosts = hosts
	if len(others) == 0 {
		return p, nil
	}
	asked := make([]hostfile.Host, len(others))
	for i, at := range others {
		asked[i] = hosts[at]
	}
	cores, err := s.count(ctx, asked)
	if err != nil {
		return place{}, err
	}
	for i, at := range others {
		hosts[at].Slots = autoSlots(hosts[at], cores[i], perRank)
	}
	return p, nil
}

// autoSlots is how many ranks a host with so many cores is meant to hold.
func autoSlots(h hostfile.Host, cores, perRank int) int {
	slots := min(max(cores/max(perRank, 1), 1), hostfile.MaxSlots)
	if h.MaxSlots > 0 {
		slots = min(slots, h.MaxSlots)
	}
	return slots
}

// coreCounter asks hosts for their cores, before it is known what runs where.
func coreCounter(o *runOptions, say *ui) func(context.Context, []hostfile.Host) ([]int, error) {
	return func(ctx context.Context, hosts []hostfile.Host) ([]int, error) {
		exe, err := ownExecutable()
		if err != nil {
			return nil, err
		}
		dial, err := dialer(o)
		if err != nil {
			return nil, err
		}
		if o.startTimeout > 0 {
			var cancel context.CancelFunc
			late := fmt.Errorf("its cores were not counted within %v (--start-timeout)", time.Duration(o.startTimeout))
			ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(o.startTimeout), late)
			defer cancel()
		}
		say.tracef("counting the cores of %s", plural(len(hosts), "host"))
		return launcher.Cores(ctx, hosts, launcher.Options{Dial: dial, Exe: exe, Trace: say.tracef})
	}
}
