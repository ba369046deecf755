package plan

import (
	"slices"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
)

// maxSpawned bounds the ranks that the ranks of one host may spawn during a job.
const maxSpawned = 1 << 16

// maxWorlds bounds how often the ranks of one host may spawn others during a job, unless more may
// run at a time. Each time the gorun-pmix of every host keeps some 50 KiB until the job ends: a
// hostile host could fill their memory.
const maxWorlds = 1 << 12

// maxAsked bounds the programs that the ranks of one host may name in all their requests, also in
// those that are refused: each takes time of the launcher, for all hosts.
const maxAsked = maxSpawned

// WithIdle returns the plan with the hosts that have no ranks, so that some can be spawned there.
func (p Plan) WithIdle(hosts []hostfile.Host) Plan {
	known := map[hostfile.Host]bool{}
	for _, h := range p.Hosts {
		known[place(h.Host)] = true
	}
	p.Hosts = slices.Clone(p.Hosts)
	for _, h := range hosts {
		if !known[place(h)] && h.Slots > 0 {
			known[place(h)] = true
			p.Hosts = append(p.Hosts, Host{Host: h})
		}
	}
	return p
}

// WithSpawn lets the ranks of each host spawn others there, at most so many at a time.
func (p Plan) WithSpawn(most, universe int) Plan {
	if most <= 0 {
		return p
	}
	p.Hosts = slices.Clone(p.Hosts)
	for i := range p.Hosts {
		p.Hosts[i].Spawn = wire.Spawn{
			First:    p.Size + i,
			Step:     len(p.Hosts),
			Total:    maxSpawned,
			Most:     most,
			Universe: universe,
		}
	}
	return p
}

// Anywhere lets the ranks that may spawn others do so on all hosts of the plan.
func (p Plan) Anywhere() Plan {
	p.Hosts = slices.Clone(p.Hosts)
	for i := range p.Hosts {
		p.Hosts[i].Spawn.Anywhere = true
	}
	return p
}
