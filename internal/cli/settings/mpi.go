package settings

import (
	"errors"

	"github.com/gorun/gorun/internal/wire"
)

// mpiFlag is --mpi, how ranks of MPI programs find each other; "" is what each program is linked with.
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
		return errors.New("it must be auto, pmi1 for programs of MPICH and of MPIs made from it, ompi4 for those of Open MPI up to 4.1, or pmix for those of Open MPI 5")
	}
	return nil
}
