package survey

import (
	"context"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher/session"
)

// Units beside those that ranks can be bound to.
const (
	UnitCores = "" // cores that ranks may keep busy
	UnitGPUs  = "gpu"
)

// Counted is how many of a unit one host has.
type Counted struct {
	Host hostfile.Host
	N    int
	Err  error // nil: the host answered
}

// Count counts a unit of all hosts in parallel: UnitCores, UnitGPUs, or one that ranks can be bound
// to, such as wire.BindSocket. It leaves nothing running. The result is in the order of hosts.
func Count(ctx context.Context, hosts []hostfile.Host, unit string, reach Reach) []Counted {
	all := make([]Counted, len(hosts))
	for i, o := range onAll(ctx, hosts, reach, func(ctx context.Context, i int, s *session.Session) error {
		switch unit {
		case UnitCores:
			all[i].N = max(s.Hello.Cores, 1)
			return nil
		case UnitGPUs:
			list, err := s.ListGPUs(ctx, reach.GPUProgram)
			all[i].N = len(list.Devices)
			return err
		}
		units, err := s.CountUnits(ctx)
		all[i].N = units[unit]
		return err
	}) {
		all[i].Host = hosts[i]
		all[i].Err = o.err
	}
	return all
}

// GPUs are those of one host.
type GPUs struct {
	Host hostfile.Host
	gpu.Inventory
	Err error // nil: the host answered
}

// Inventory lists the GPUs of all hosts in parallel. Hosts with GPUs that lack gorun-gpu get it. It
// leaves nothing running, and no file but gorun. The result is in the order of hosts.
func Inventory(ctx context.Context, hosts []hostfile.Host, reach Reach) []GPUs {
	all := make([]GPUs, len(hosts))
	for i, o := range onAll(ctx, hosts, reach, func(ctx context.Context, i int, s *session.Session) (err error) {
		all[i].Inventory, err = s.ListGPUs(ctx, reach.GPUProgram)
		return err
	}) {
		all[i].Host = hosts[i]
		all[i].Err = o.err
	}
	return all
}
