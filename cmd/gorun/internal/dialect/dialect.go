// Package dialect turns command lines of mpirun, mpiexec.hydra, horovodrun, srun, torchrun,
// deepspeed, accelerate and flux into gorun's own flags. flags.txt is the table of translations;
// readers translate values that need code. The result is text for the flag parser, which alone
// checks the values of gorun's flags.
package dialect

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/usage"
)

// Dialect is a launcher whose flags gorun accepts, or a set of them.
type Dialect uint16

// The launchers.
const (
	OpenMPI Dialect = 1 << iota
	Hydra
	Horovod
	Slurm
	Torch
	DeepSpeed
	Accelerate
	Flux
	Own // gorun itself, where it chooses between the others' meanings
)

// byName are the launchers whose words count only in their own dialects.
const byName = DeepSpeed | Accelerate | Flux

// Launcher is a launcher and its names.
type Launcher struct {
	Dialect Dialect
	Name    string   // name of its program
	Title   string   // heading
	aliases []string // other names of its program, and short names
	command string   // the command of its program that gorun understands; "": it has none
	// version is the beginning of what its --version prints, by which scripts tell launchers apart,
	// for the version that gorun's words were compared with; "": gorun's own version says enough.
	version string
}

// Launchers lists the launchers in the order of the documentation.
func Launchers() []Launcher {
	return []Launcher{
		{Dialect: OpenMPI, Name: "mpirun", Title: "mpirun (Open MPI 4 and 5)",
			aliases: []string{"mpiexec", "mpirun.openmpi", "mpiexec.openmpi", "orterun", "prterun", "openmpi", "ompi"},
			version: "mpirun (Open MPI) 5.0.11\n\n"},
		{Dialect: Hydra, Name: "mpiexec.hydra", Title: "mpiexec.hydra (MPICH, Intel MPI)",
			aliases: []string{"mpirun.hydra", "mpirun.mpich", "mpiexec.mpich", "hydra", "mpich"},
			version: "HYDRA build details:\n    Version:                                 4.0.2\n"},
		{Dialect: Horovod, Name: "horovodrun", Title: "horovodrun", aliases: []string{"horovod"}},
		{Dialect: Slurm, Name: "srun", Title: "srun", aliases: []string{"slurm"}, version: "slurm 22.05.8\n"},
		{Dialect: Torch, Name: "torchrun", Title: "torchrun", aliases: []string{"torch"}},
		{Dialect: DeepSpeed, Name: "deepspeed", Title: "deepspeed"},
		{Dialect: Accelerate, Name: "accelerate", Title: "accelerate launch", command: "launch"},
		{Dialect: Flux, Name: "flux", Title: "flux run", command: "run"},
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

// Named returns the dialect of a launcher's name, or Own if the name is unknown.
func Named(name string) (dialect Dialect, known bool) {
	for _, l := range Launchers() {
		if name == l.Name || slices.Contains(l.aliases, name) {
			return l.Dialect, true
		}
	}
	return Own, name == "gorun"
}

// launcher returns the launcher of a dialect; gorun itself is the zero value.
func (d Dialect) launcher() Launcher {
	all := Launchers()
	if i := slices.IndexFunc(all, func(l Launcher) bool { return l.Dialect == d }); i >= 0 {
		return all[i]
	}
	return Launcher{}
}

// Version returns the lines of a launcher's --version by which scripts know it, or "".
func (d Dialect) Version() string { return d.launcher().version }

// Choose returns the dialect of GORUN_DIALECT, or else of the name that gorun was started by.
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

// Names returns the names that --dialect takes.
func Names() []string {
	names := []string{"gorun"}
	for _, n := range Launchers() {
		names = append(names, n.Name)
	}
	return names
}

// Unknown returns the error for a name that is not a dialect. what is the user's text.
func Unknown(what, name string) error {
	return usage.Errorf(usage.Choose(name, Names()), "%s: unknown dialect", what)
}
