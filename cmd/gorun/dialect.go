package main

import (
	"path/filepath"
	"strings"
)

// launchers is a set of launchers whose words gorun takes.
type launchers uint8

const (
	OpenMPI launchers = 1 << iota
	Hydra
	Horovod
	Slurm
	Torch
	Own // gorun itself, where it chooses between the others' meanings

	noLauncher launchers = 0
)

// launcherNames are the launchers in the order of the documentation.
func launcherNames() []struct {
	launcher    launchers
	name, title string
} {
	return []struct {
		launcher    launchers
		name, title string
	}{
		{OpenMPI, "mpirun", "mpirun (Open MPI 4 and 5)"},
		{Hydra, "mpiexec.hydra", "mpiexec.hydra (MPICH, Intel MPI)"},
		{Horovod, "horovodrun", "horovodrun"},
		{Slurm, "srun", "srun"},
		{Torch, "torchrun", "torchrun"},
	}
}

// String lists the names of the launchers in l.
func (l launchers) String() string {
	var names []string
	for _, n := range launcherNames() {
		if l&n.launcher != 0 {
			names = append(names, n.name)
		}
	}
	if l&Own != 0 {
		names = append(names, "gorun")
	}
	return strings.Join(names, ", ")
}

// dialectNamed is the dialect that a name asks for: the launcher whose meaning a
// word has before all others' meanings. gorun's own is own.
func dialectNamed(name string) (dialect launchers, known bool) {
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

// chooseDialect is the dialect of a command line whose flags do not name one: that of
// GORUN_DIALECT, or else of the name that gorun was started by.
func chooseDialect(program string, lookup func(string) (string, bool)) (launchers, error) {
	if name, _ := lookup("GORUN_DIALECT"); name != "" {
		dialect, known := dialectNamed(name)
		if !known {
			return Own, unknownDialect("GORUN_DIALECT="+name, name)
		}
		return dialect, nil
	}
	dialect, _ := dialectNamed(filepath.Base(program))
	return dialect, nil
}

func unknownDialect(what, name string) error {
	names := []string{"gorun"}
	for _, n := range launcherNames() {
		names = append(names, n.name)
	}
	if n := nearest(name, names); n != "" {
		return usagef("did you mean "+n+"?", "%s: there is no such dialect", what)
	}
	return usagef("choose "+strings.Join(names, ", "), "%s: there is no such dialect", what)
}
