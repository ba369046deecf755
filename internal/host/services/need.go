package services

import (
	"context"
	"fmt"

	"github.com/gorun/gorun/internal/host/linkage"
	"github.com/gorun/gorun/internal/net/wire"
)

// FindMPI returns the MPI that a program is served: the one that the job says, or the one that the
// program at path, or one that its command line names, is linked with.
func FindMPI(ctx context.Context, job wire.Job, path string, argv []string, dir string,
	env map[string]string) (use Use) {
	if job.MPI.Way == wire.MPIPMI1 || job.Elastic != nil { // MPI cannot do with numbers of ranks that change
		return use
	}
	if job.MPI.Way != wire.MPIOpenMPI4 {
		use.Use, use.Guess = linkage.FindCommand(ctx, path, argv, dir, env)
	}
	if job.MPI.Way != "" {
		use.Guess = false
	}
	switch {
	case job.MPI.Way == wire.MPIOpenMPI4:
		use.MPI = linkage.OpenMPI4
	case job.MPI.Way == wire.MPIPMIx && !use.byPMIx():
		use.MPI = linkage.OpenMPI
	}
	return use
}

// Use is the MPI that a program is served.
type Use struct {
	linkage.Use
	Guess bool // its command line names one, which need not be started
}

// byPMIx reports whether its ranks can find each other by PMIx.
func (u Use) byPMIx() bool {
	return u.MPI == linkage.OpenMPI || u.MPI == linkage.OpenMPI4 && u.PMIx != ""
}

// AddTo adds what the launcher may have for it. withoutFiles is whether the program is in a
// container that inherits no open files.
func (u Use) AddTo(need *wire.Need, withoutFiles bool) {
	// It serves where the launcher has no server of PMIx.
	need.OpenMPI4 = need.OpenMPI4 || !withoutFiles && u.MPI == linkage.OpenMPI4
	need.PMIx = need.PMIx || !withoutFiles && u.byPMIx()
}

// MPI holds the needs of the programs' MPIs beside PMI-1.
type MPI struct {
	OpenMPI4 bool     // the library for Open MPI up to 4.1 that has a PMIx of its own
	PMIx     bool     // the server for other Open MPIs
	Library  string   // path of the server's libpmix; "" is the system's
	Env      []string // the server's environment, that of such a program
	Guess    bool     // no program is sure to need the server
	Unknown  bool     // some program may load an MPI that nobody foresees
	Note     string   // note for the user about a program that lacks one of both
}

// Add adds what a program needs. withoutFiles is as for AddTo.
func (m *MPI) Add(job wire.Job, name string, use Use, withoutFiles bool, env map[string]string) {
	lacks := ""
	m.Unknown = m.Unknown || !withoutFiles && use.MPI == linkage.None && job.Size > 1 && job.Elastic == nil
	switch {
	case withoutFiles || use.MPI != linkage.OpenMPI && use.MPI != linkage.OpenMPI4:
	case use.MPI == linkage.OpenMPI4 && (!use.byPMIx() || len(job.MPI.PMIx) == 0):
		if m.OpenMPI4 = len(job.MPI.OpenMPI4) > 0; !m.OpenMPI4 {
			lacks = "gorun-ompi4.so"
		}
	case len(job.MPI.PMIx) == 0:
		lacks = "gorun-pmix"
	case m.PMIx:
		m.Guess = m.Guess && use.Guess
	default:
		m.Library = use.PMIx
		m.PMIx = true
		m.Guess = use.Guess
		for name, value := range env {
			m.Env = append(m.Env, name+"="+value)
		}
	}
	if lacks != "" && job.Size > 1 {
		how := "is linked with"
		if use.Guess {
			how = "names a program of"
		}
		m.Note = fmt.Sprintf("%s %s Open MPI, whose ranks do not find each other: each is rank 0 of 1. "+
			"gorun needs %s in its own directory for it; make build makes it where its compiler and headers are", name,
			how, lacks)
	}
}
