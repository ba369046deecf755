package core

// Tolerance is which failures of ranks leave the others running. They fail the job all the same,
// at its end.
type Tolerance uint8

// The ways of launchers.
const (
	TolerateNone  Tolerance = iota // a failed rank ends the job: gorun, mpirun, torchrun, horovodrun
	TolerateCodes                  // a rank may exit with any code, but no signal may end it: Hydra
	TolerateAll                    // srun
)

// Allows reports whether the other ranks go on after one has ended. They never do without one that
// did not start, or that has left MPI without a word.
func (t Tolerance) Allows(e Exit) bool {
	return e.MPI == "" && e.Failed == "" && (t == TolerateAll || t == TolerateCodes && e.Signal == 0)
}
