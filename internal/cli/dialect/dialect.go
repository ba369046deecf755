// Package dialect turns command lines of mpirun, mpiexec.hydra, horovodrun, srun and torchrun into
// gorun's own flags. A table says what each of their words means to gorun (words*.go); readers turn the
// values that a table cannot (readers.go and what it calls). What comes out is text for the flag parser,
// which alone knows what values our flags may have.
package dialect

import (
	"path/filepath"
	"strings"

	"github.com/gorun/gorun/internal/cli/usage"
)

// Dialect is a launcher whose words gorun takes, or a set of them.
type Dialect uint8

// The launchers.
const (
	OpenMPI Dialect = 1 << iota
	Hydra
	Horovod
	Slurm
	Torch
	Own // gorun itself, where it chooses between the others' meanings
)

// Launcher is a launcher with its names.
type Launcher struct {
	Dialect Dialect
	Name    string // of its program
	Title   string // for headings
}

// Launchers are the launchers in the order of the documentation.
func Launchers() []Launcher {
	return []Launcher{
		{OpenMPI, "mpirun", "mpirun (Open MPI 4 and 5)"},
		{Hydra, "mpiexec.hydra", "mpiexec.hydra (MPICH, Intel MPI)"},
		{Horovod, "horovodrun", "horovodrun"},
		{Slurm, "srun", "srun"},
		{Torch, "torchrun", "torchrun"},
	}
}

// String lists the names of the launchers in d.
func (d Dialect) String() string {
	var names []string
	for _, n := range Launchers() {
		if d&n.Dialect != 0 {
			names = append(names, n.Name)
		}
	}
	if d&Own != 0 {
		names = append(names, "gorun")
	}
	return strings.Join(names, ", ")
}

// Named is the dialect that a name asks for: the launcher whose meaning a
// word has before all others' meanings. gorun's own is Own, and so is one that is not known.
func Named(name string) (dialect Dialect, known bool) {
	switch name {
	case "gorun":
		return Own, true
	case "mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.openmpi", "orterun", "prterun", "openmpi", "ompi":
		return OpenMPI, true
	case "mpiexec.hydra", "mpirun.hydra", "mpirun.mpich", "mpiexec.mpich", "hydra", "mpich":
		return Hydra, true
	case "horovodrun", "horovod":
		return Horovod, true
	case "srun", "slurm":
		return Slurm, true
	case "torchrun", "torch":
		return Torch, true
	}
	return Own, false
}

// Choose is the dialect of a command line whose flags do not name one: that of
// GORUN_DIALECT, or else of the name that gorun was started by.
func Choose(program string, lookup func(string) (string, bool)) (Dialect, error) {
	if name, _ := lookup("GORUN_DIALECT"); name != "" {
		dialect, known := Named(name)
		if !known {
			return Own, Unknown("GORUN_DIALECT="+name, name)
		}
		return dialect, nil
	}
	dialect, _ := Named(filepath.Base(program))
	return dialect, nil
}

// Unknown is the error for a name that is no dialect's. what is where it stands, as the user wrote it.
func Unknown(what, name string) error {
	names := []string{"gorun"}
	for _, n := range Launchers() {
		names = append(names, n.Name)
	}
	if n := usage.Nearest(name, names); n != "" {
		return usage.Errorf("did you mean "+n+"?", "%s: there is no such dialect", what)
	}
	return usage.Errorf("choose "+strings.Join(names, ", "), "%s: there is no such dialect", what)
}
