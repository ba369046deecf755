package settings

import "errors"

// mpiFlag is --mpi, the MPI of the job's programs.
type mpiFlag struct{ OpenMPI4 bool }

func (m *mpiFlag) String() string {
	if m.OpenMPI4 {
		return "ompi4"
	}
	return "pmi1"
}

func (m *mpiFlag) Type() string { return "MPI" }

func (m *mpiFlag) Set(text string) error {
	switch text {
	case "pmi1", "none", "mpich", "pmi2": // MPICH falls back to PMI-1
		m.OpenMPI4 = false
	case "ompi4":
		m.OpenMPI4 = true
	case "pmix", "pmix_v2", "pmix_v3", "pmix_v4", "openmpi", "ompi5":
		return errors.New("gorun does not speak PMIx: programs of Open MPI up to 4.1 run with --mpi ompi4, newer ones need Open MPI's own mpirun")
	default:
		return errors.New("it must be pmi1, for programs of MPICH and of MPIs made from it, or ompi4, for those of Open MPI up to 4.1")
	}
	return nil
}
