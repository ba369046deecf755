package survey

import (
	"context"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher/session"
)

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
