package launcher

import (
	"time"
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
