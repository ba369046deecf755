package plan

import "slices"

// maxSpawned is the most ranks that those of a host may spawn during a job.
const maxSpawned = 1 << 16

// Spawn is which ranks the ranks of a host may start while the job runs (MPI_Comm_spawn). Their numbers are First, First+Step and so on,
// Total at most, and belong to no other host.
type Spawn struct {
	First, Step, Total int
	Most               int // that run at a time
	Universe           int // MPI_UNIVERSE_SIZE; 0: the job's size
}

func (s Spawn) has(rank int) bool {
	return s.Total > 0 && rank >= s.First && (rank-s.First)%s.Step == 0 && (rank-s.First)/s.Step < s.Total
}

// WithSpawn lets the ranks of each host spawn others, of which that many may run at a time.
func (p Plan) WithSpawn(most, universe int) Plan {
	if most <= 0 {
		return p
	}
	p.Hosts = slices.Clone(p.Hosts)
	for i := range p.Hosts {
		p.Hosts[i].Spawn = Spawn{First: p.Size + i, Step: len(p.Hosts), Total: maxSpawned, Most: most, Universe: universe}
	}
	return p
}
