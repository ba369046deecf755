package launcher

import (
	"time"
)

// Event is a step of a job: [Connected], [Ready], [Started], [Spawned], [Exited], [HostLost],
// [Membership] or [BringingBack].
type Event any

// Events, in the order of a job's life. Times are since the job began.
type (
	// Connected reports a connection to a host.
	Connected struct{ Host string }
	// Ready reports that a host has the agent, the program and the directory.
	Ready struct{ Host string }
	// Started reports that the ranks were released.
	Started struct{ At time.Duration }
	// Spawned reports ranks that an MPI program starts, at least one.
	Spawned struct{ Ranks []int }
	// Exited reports the end of a rank.
	Exited struct {
		Host string
		Exit Exit
	}
	// HostLost reports a host that was lost.
	HostLost struct {
		Host string
		Err  error
		At   time.Duration
	}
)
