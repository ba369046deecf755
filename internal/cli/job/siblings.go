package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/memexec"
	"github.com/gorun/gorun/internal/trust"
)

// Sibling returns the path of a program or library that is installed in the directory of gorun. It returns an error
// that is an fs.ErrNotExist if there is none, and one if another user could have put it there.
func Sibling(gorun, name string) (string, error) {
	path := filepath.Join(filepath.Dir(gorun), name)
	switch err := trust.Check(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "", err // which names the path
	case err != nil:
		return "", fmt.Errorf("use %s: %w", path, err)
	}
	return path, nil
}

// GPUProgram returns a function that loads the gorun-gpu next to gorun, for hosts with GPUs; nil content if there is
// none.
func GPUProgram(gorun string) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		path, err := Sibling(gorun, "gorun-gpu")
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		program, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read gorun-gpu: %w", err)
		}
		return memexec.Pack(program)
	})
}

// openMPILibrary reads the library that programs of Open MPI 4 preload.
func openMPILibrary(gorun string) ([]byte, error) {
	path, err := Sibling(gorun, "gorun-ompi4.so")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage.Errorf("make build makes it where there is a C compiler; it must be in the directory of gorun", "--mpi ompi4 needs it: %w", err)
	}
	if err != nil {
		return nil, usage.Errorf(usage.Hint(err), "--mpi ompi4: %w", err)
	}
	library, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read Open MPI's library: %w", err)
	}
	return library, nil
}
