package launcher

import (
	"time"

	"github.com/gorun/gorun/launcher/plan"
)

// Event is a step of a job, for whoever follows it: one of [Connected], [Ready], [Started], [Exited]
// and [HostLost].
type Event any

// Events, in the order of a job's life. Times are since the job began.
type (
	// Connected says that a host was reached.
	Connected struct{ Host string }
	// Ready says that a host has the agent, the program and the directory.
	Ready struct{ Host string }
	// Started says that the ranks were let begin.
	Started struct{ At time.Duration }
	// Exited is the end of a rank.
	Exited struct {
		Host string
		Exit Exit
	}
	// HostLost says that a host was lost.
	HostLost struct {
		Host string
		Err  error
		At   time.Duration
	}
)

// tell passes an event on. Events of different hosts come from different goroutines
// until Started.
func (j *job) tell(e Event) {
	if j.opts.Follow != nil {
		j.opts.Follow(e)
	}
}

// explain adds to a result what the output says about its cause.
func (j *job) explain(r *Result) {
	const lines = 3
	r.Started, r.Ended = j.started, j.now()
	if r.Cause == nil || r.Cause.Rank < 0 {
		return
	}
	if len(j.opts.Programs) > 1 {
		r.Cause.Program = plan.ProgramOf(r.Cause.Rank, j.opts.Programs).Argv[0]
	}
	r.Cause.Stderr = j.stderr.LastLines(r.Cause.Rank, lines)
	if j.files != nil {
		r.Cause.Log = j.files.Log(r.Cause.Rank)
	}
}
