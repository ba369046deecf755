package launcher

import (
	"fmt"

	"github.com/gorun/gorun/internal/prose"
)

// openMPINote returns a notice for a job of size ranks if a program is linked with Open MPI on some
// host, or "".
func openMPINote(size int, programs []string) string {
	for _, p := range programs {
		if p != "" && size > 1 {
			return fmt.Sprintf("%s is linked with Open MPI, whose ranks do not find each other under gorun: each is rank 0 of 1. "+
				"For Open MPI up to 4.1 say --mpi ompi4; else build it with MPICH, or start it with Open MPI's mpirun", prose.Printable(p))
		}
	}
	return ""
}
