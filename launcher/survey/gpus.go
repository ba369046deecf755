package survey

import (
	"context"
	"time"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher/session"
)

// GPUs are those of one host.
type GPUs struct {
	Host hostfile.Host
	gpu.Inventory
	Err error // nil: the host was asked, and has these
}

// Inventory lists the GPUs of all hosts in parallel. Hosts with GPUs that lack gorun-gpu get it. It
// leaves nothing running, and no file but gorun. The result is in the order of hosts.
func Inventory(ctx context.Context, hosts []hostfile.Host, opts Options) []GPUs {
	all := make([]GPUs, len(hosts))
	onAll(ctx, hosts, opts, func(ctx context.Context, i int, conn session.Host, stager *session.Stager) error {
		s, err := stager.Agent(ctx, conn, session.Identity{})
		if err != nil {
			return err
		}
		defer s.Close()
		all[i].Inventory, err = s.ListGPUs(ctx, opts.GPUProgram)
		return err
	}, func(i int, _ time.Duration, err error) {
		all[i].Host = hosts[i]
		all[i].Err = err
	})
	return all
}
