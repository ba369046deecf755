// Package installed finds what is installed with gorun: the running gorun itself, those for other
// architectures, and programs and libraries beside it.
package installed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/host/memexec"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/usage"
)

// Path returns the path of a file that is installed with gorun: in its directory, or in
// ../lib/gorun of it, where packages put what users do not call. It returns an error that is an
// fs.ErrNotExist if there is none, and one if another user could have put it there.
func Path(gorun, name string) (string, error) {
	dir := filepath.Dir(gorun)
	path, err := inDirectory(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		if other, otherErr := inDirectory(filepath.Join(filepath.Dir(dir), "lib", "gorun"), name); !errors.Is(otherErr,
			fs.ErrNotExist) {
			return other, otherErr
		}
	}
	return path, err
}

func inDirectory(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	switch err := trust.CheckOptional(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "", err // the error names the path
	case err != nil:
		return "", fmt.Errorf("use %s: %w", path, err)
	}
	return path, nil
}

// GPUProgram returns a function that loads the gorun-gpu next to gorun, for hosts with GPUs; nil
// content if there is none.
func GPUProgram(gorun string) func() ([]byte, error) {
	return sync.OnceValues(func() ([]byte, error) {
		path, err := Path(gorun, "gorun-gpu")
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

// OpenMPI returns a function that reads the library that programs of Open MPI 4 preload, and the
// program that serves those of later ones, when a host needs them. A job goes on without one that
// the user has not asked for by way; trace says why.
func OpenMPI(gorun string, way wire.MPIWay, trace func(format string, args ...any)) (func(wire.Need) wire.MPI, error) {
	library := sync.OnceValues(func() ([]byte, error) { return read(gorun, "gorun-ompi4.so") })
	server := sync.OnceValues(func() ([]byte, error) {
		program, err := read(gorun, "gorun-pmix")
		if err != nil {
			return nil, err
		}
		return memexec.Pack(program)
	})
	asked := map[wire.MPIWay]func() ([]byte, error){wire.MPIOpenMPI4: library, wire.MPIPMIx: server}[way]
	if asked != nil {
		if _, err := asked(); err != nil {
			return nil, needed(way, err)
		}
	}
	return func(need wire.Need) (mpi wire.MPI) {
		var err error
		if need.OpenMPI4 {
			if mpi.OpenMPI4, err = library(); err != nil {
				trace("without Open MPI 4: %v", err)
			}
		}
		if need.PMIx {
			if mpi.PMIx, err = server(); err != nil {
				trace("without Open MPI 5: %v", err)
			}
		}
		return mpi
	}, nil
}

func read(gorun, name string) ([]byte, error) {
	path, err := Path(gorun, name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// needed returns the error for a file that --mpi needs.
func needed(way wire.MPIWay, err error) error {
	hint := usage.Hint(err)
	if errors.Is(err, fs.ErrNotExist) {
		hint = "make build makes it where its compiler and headers are; it must be in the directory of gorun"
	}
	return usage.Errorf(hint, "--mpi %s needs it: %w", way, err)
}
