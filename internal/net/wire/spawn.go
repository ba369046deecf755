package wire

// Spawn is which ranks may be started on a host by MPI_Comm_spawn. Their numbers are First,
// First+Step and so on, Total at most.
type Spawn struct {
	First, Step, Total int
	Most               int // limit of spawned ranks that run at a time; 0: no spawning
	Universe           int // MPI_UNIVERSE_SIZE; 0: the job's size
	// Anywhere: ranks of the host may start others on all hosts of the job, not only there.
	Anywhere bool `json:",omitempty"`
}

// Has reports whether a rank is one that may be spawned on the host.
func (s Spawn) Has(rank int) bool {
	return s.Total > 0 && rank >= s.First && (rank-s.First)%s.Step == 0 && (rank-s.First)/s.Step < s.Total
}

// SpawnRequest asks for more ranks on behalf of a rank of the host.
type SpawnRequest struct {
	ID       uint64 // number of the request, unique to the agent
	By       int    // rank that asks
	Programs []SpawnProgram
	Given    map[string][]byte `json:",omitempty"` // values that the new ranks can get over PMI-1
}

// SpawnProgram is run by so many of the new ranks.
type SpawnProgram struct {
	Argv Texts
	Env  Texts `json:",omitempty"` // NAME=value, laid over those of the host's program
	Dir  Text  `json:",omitempty"` // working directory; empty: that of the host's program
	// where they must run: names of hosts with commas, each perhaps with :SLOTS; "": anywhere
	Host string `json:",omitempty"`
	// Ranks is their number, 1 at least.
	Ranks int
}

// World is ranks that a rank has spawned, for all hosts of the job; or, for the host that asked,
// why there are none.
type World struct {
	ID      uint64 // number of the request
	By      int
	Refused string `json:",omitempty"`

	Number int // 1-based number of the world, in the order of the requests
	// For a host without a rank of the world, Programs have only numbers of ranks, and Given is
	// nil.
	Programs []SpawnProgram
	Given    map[string][]byte `json:",omitempty"`
	Numbers  []int             // numbers of the world's ranks in the job, by rank
	HostOf   []int             // index of each rank's host among the job's, by rank
}
