package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gorun/gorun/internal/cli/usage"
)

// mpiFlag is --mpi, the MPI of the job's programs.
type mpiFlag struct{ openMPI4 bool }

func (m *mpiFlag) String() string {
	if m.openMPI4 {
		return "ompi4"
	}
	return "pmi1"
}

func (m *mpiFlag) Type() string { return "MPI" }

func (m *mpiFlag) Set(text string) error {
	switch text {
	case "pmi1", "none", "mpich", "pmi2": // MPICH falls back to PMI-1
		m.openMPI4 = false
	case "ompi4":
		m.openMPI4 = true
	case "pmix", "pmix_v2", "pmix_v3", "pmix_v4", "openmpi", "ompi5":
		return errors.New("gorun does not speak PMIx: programs of Open MPI up to 4.1 run with --mpi ompi4, newer ones need Open MPI's own mpirun")
	default:
		return errors.New("it must be pmi1, for programs of MPICH and of MPIs made from it, or ompi4, for those of Open MPI up to 4.1")
	}
	return nil
}

// Library reads the library that programs of Open MPI 4 preload, from the directory of gorun. It returns nil unless
// --mpi is ompi4.
func (m *mpiFlag) Library(gorun string) ([]byte, error) {
	if !m.openMPI4 {
		return nil, nil
	}
	path := filepath.Join(filepath.Dir(gorun), "gorun-ompi4.so")
	library, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage.Errorf("make build makes it where there is a C compiler; it must be in the directory of gorun", "--mpi ompi4 needs %s", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read Open MPI's library: %w", err)
	}
	return library, nil
}
