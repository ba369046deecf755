package survey

import (
	"context"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher/session"
)

// Units are how many sockets, cores and the like one host has.
type Units struct {
	Host  hostfile.Host
	Count map[string]int // by the name of the unit
	Err   error          // nil: the host was asked, and has these
}

// Count counts the units of all hosts in parallel, those that ranks can be bound to. It leaves
// nothing running. The result is in the order of hosts.
func Count(ctx context.Context, hosts []hostfile.Host, opts Options) []Units {
	all := make([]Units, len(hosts))
	onAll(ctx, hosts, opts, func(ctx context.Context, i int, conn session.Host, stager *session.Stager) error {
		s, err := stager.Agent(ctx, conn, session.Identity{})
		if err != nil {
			return err
		}
		defer s.Close()
		all[i].Count, err = s.CountUnits(ctx)
		return err
	}, func(i int, _ time.Duration, err error) {
		all[i].Host = hosts[i]
		all[i].Err = err
	})
	return all
}
