package settings

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher"
)

// mpiFlag is --mpi, how ranks of MPI programs find each other; "" chooses by each program's MPI
// library.
type mpiFlag struct{ Way wire.MPIWay }

func (m *mpiFlag) String() string {
	if m.Way == "" {
		return "auto"
	}
	return string(m.Way)
}

func (m *mpiFlag) Type() string { return "MPI" }

func (m *mpiFlag) Set(text string) error {
	switch text {
	case "auto":
		m.Way = ""
	case "pmi1", "none", "mpich", "pmi2": // MPICH falls back to PMI-1
		m.Way = wire.MPIPMI1
	case "ompi4":
		m.Way = wire.MPIOpenMPI4
	case "pmix", "pmix_v2", "pmix_v3", "pmix_v4", "openmpi", "ompi5":
		m.Way = wire.MPIPMIx
	default:
		return errors.New("it must be auto, pmi1 for programs of MPICH and of MPIs made from it, ompi4 for those of " +
			"Open MPI up to 4.1, or pmix for those of Open MPI 5")
	}
	return nil
}

// spawnLimit is --max-spawn: how many ranks the ranks of a host may start by MPI_Comm_spawn.
type spawnLimit struct {
	most  int
	given bool
}

// defaultSpawn bounds the ranks of a program that spawns without end.
const defaultSpawn = 128

func (l *spawnLimit) Type() string { return "N" }

func (l *spawnLimit) String() string {
	if !l.given {
		return ""
	}
	return strconv.Itoa(l.most)
}

func (l *spawnLimit) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxSpawn {
		return fmt.Errorf("it must be a number of ranks from 0 to %d", maxSpawn)
	}
	l.most = n
	l.given = true
	return nil
}

const maxSpawn = 1 << 15

// Spawning returns the plan with the numbers that its ranks may spawn. If the user has set the
// limit, MPI_UNIVERSE_SIZE counts these ranks, and they may run on any host; by default a host's
// ranks spawn only there.
func (l *spawnLimit) Spawning(p launcher.Plan, hosts []hostfile.Host) launcher.Plan {
	if !l.given {
		return p.WithSpawn(defaultSpawn, 0)
	}
	if l.most > 0 {
		p = p.WithIdle(hosts)
	}
	return p.WithSpawn(l.most, p.Size+l.most).Anywhere()
}
