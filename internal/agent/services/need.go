package services

import (
	"context"
	"fmt"

	"github.com/gorun/gorun/internal/linkage"
	"github.com/gorun/gorun/internal/wire"
)

// FindMPI returns the MPI that a program is served: the one that the job says, or the one that the program at path is linked with.
func FindMPI(ctx context.Context, job wire.Job, path string, env map[string]string) (use linkage.Use) {
	if job.MPI.Way == wire.MPIPMI1 || job.Elastic != nil { // MPI cannot do with numbers of ranks that change
		return use
	}
	if job.MPI.Way != wire.MPIOpenMPI4 {
		use = linkage.Find(ctx, path, env)
	}
	switch job.MPI.Way {
	case wire.MPIOpenMPI4:
		use.MPI = linkage.OpenMPI4
	case wire.MPIPMIx:
		use.MPI = linkage.OpenMPI
	}
	return use
}

// MPI is what the programs' MPIs need beside PMI-1.
type MPI struct {
	OpenMPI4 bool     // the library for Open MPI up to 4.1
	PMIx     bool     // the server for later ones,
	Library  string   // with the libpmix of this path, "" is the system's,
	Env      []string // and the environment of such a program, in which the library finds its own
	Note     string   // about a program that lacks one of both, for the user
}

// Add adds what a program needs. An apart program is in a container, which inherits no files.
func (m *MPI) Add(job wire.Job, name string, use linkage.Use, apart bool, env map[string]string) {
	lacks := ""
	switch {
	case apart:
	case use.MPI == linkage.OpenMPI4:
		if m.OpenMPI4 = len(job.MPI.OpenMPI4) > 0; !m.OpenMPI4 {
			lacks = "gorun-ompi4.so"
		}
	case use.MPI == linkage.OpenMPI && len(job.MPI.PMIx) == 0:
		lacks = "gorun-pmix"
	case use.MPI == linkage.OpenMPI && !m.PMIx:
		m.PMIx, m.Library = true, use.PMIx
		for name, value := range env {
			m.Env = append(m.Env, name+"="+value)
		}
	}
	if lacks != "" && job.Size > 1 {
		m.Note = fmt.Sprintf("%s is linked with Open MPI, whose ranks do not find each other: each is rank 0 of 1. "+
			"gorun needs %s in its own directory for it; make build makes it where its compiler and headers are", name, lacks)
	}
}
