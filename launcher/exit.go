package launcher

import "time"

// Exit is how a rank ended.
type Exit struct {
	Rank    int
	Code    int           // exit status; 0 when Signal is set
	Signal  int           // signal that ended it, or 0
	Core    bool          // it dumped core
	Stopped bool          // its agent had signalled it before it ended
	Aborted bool          // the rank had been told to abort before it ended
	At      time.Duration // since the job began
	MPI     MPIEnd
	Failed  string        // why it did not start, with Code 126 or 127; "": it did
	MaxRSS  int64         // its peak memory in bytes, or that of the largest process it waited for
	CPU     time.Duration // user and system time that it and they used
	// OutOfMemory is the memory whose end made the kernel kill it; "": none, as far as is known.
	OutOfMemory OutOfMemory
	MemoryLimit int64 // in bytes, of MemoryOfGroup
}

// MPIEnd is an end that only MPI reports.
type MPIEnd string

// Ends of MPI programs. The exit's Code is the one given to MPI_Abort, or 0.
const (
	MPIAborted    MPIEnd = "aborted"    // the rank called MPI_Abort
	MPIUnfinished MPIEnd = "unfinished" // it ended after MPI_Init and before MPI_Finalize
)

// OutOfMemory is a memory that ran out.
type OutOfMemory string

// Memory that may run out.
const (
	MemoryOfHost  OutOfMemory = "host"
	MemoryOfGroup OutOfMemory = "cgroup"   // a cgroup reached its limit
	MemoryLikely  OutOfMemory = "probably" // the host's, but which process the kernel killed is unknown
)

func (e Exit) failed() bool { return e.Code != 0 || e.Signal != 0 || e.MPI != "" }
