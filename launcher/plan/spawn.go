package plan

import (
	"slices"

	"github.com/gorun/gorun/hostfile"
)

// maxSpawned is the most ranks that those of a host may spawn during a job.
const maxSpawned = 1 << 16

// Spawn is which ranks the ranks of a host may start while the job runs (MPI_Comm_spawn). Their
// numbers are First, First+Step and so on, Total at most, and belong to no other host.
type Spawn struct {
	First, Step, Total int
	Most               int // that run at a time
	Universe           int // MPI_UNIVERSE_SIZE; 0: the job's size
	// Anywhere: ranks of the host may start others on all hosts of the job, not only there.
	Anywhere bool
}

func (s Spawn) has(rank int) bool {
	return s.Total > 0 && rank >= s.First && (rank-s.First)%s.Step == 0 && (rank-s.First)/s.Step < s.Total
}

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

// WithSpawn lets the ranks of each host spawn others there, of which that many may run at a time.
func (p Plan) WithSpawn(most, universe int) Plan {
	if most <= 0 {
		return p
	}
	p.Hosts = slices.Clone(p.Hosts)
	for i := range p.Hosts {
		p.Hosts[i].Spawn = Spawn{
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
