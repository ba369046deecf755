package core

import (
	"cmp"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// Exit is how a rank ended.
type Exit struct {
	Rank    int
	Code    int           // exit status; 0 when Signal is set
	Signal  int           // signal that ended it, or 0
	Core    bool          // whether it dumped core
	Stopped bool          // whether its agent had signalled it before it ended
	Cause   *StopCause    // why, if Stopped; nil: unknown
	Aborted bool          // whether it had been told to abort before it ended
	At      time.Duration // since the job began
	MPI     MPIEnd
	Waiter  int           // the rank that waits, with MPIAwaited
	Asked   int           // the code given to MPI_Abort
	Failed  string        // why it did not start, with Code 125, 126 or 127, or ""
	Remedy  string        // what to do about Failed, or ""
	Program string        // path of the program on its host if it failed, or ""
	MaxRSS  int64         // peak memory in bytes of the rank, or of the largest process it waited for
	CPU     time.Duration // user and system time of the rank and the processes it waited for
	// OutOfMemory names the exhausted memory for which the kernel killed the rank, if known, or "".
	OutOfMemory OutOfMemory
	MemoryLimit int64 // bytes, for MemoryOfGroup
}

// MPIEnd is an end that only MPI reports.
type MPIEnd string

// Ends of MPI programs. The exit's Code is the one given to MPI_Abort, or 0.
const (
	MPIAborted    MPIEnd = "aborted"    // the rank called MPI_Abort
	MPIUnfinished MPIEnd = "unfinished" // the rank ended between MPI_Init and MPI_Finalize
	MPIAwaited    MPIEnd = "awaited"    // the rank ended while another waits for it in MPI
)

// OutOfMemory is a memory that ran out.
type OutOfMemory string

// Memory that may run out.
const (
	MemoryOfHost  OutOfMemory = "host"
	MemoryOfGroup OutOfMemory = "cgroup"   // a cgroup reached its limit
	MemoryLikely  OutOfMemory = "probably" // the host's memory; the process that the kernel killed is unknown
)

// IsFailure reports whether the rank ended otherwise than with success.
func (e Exit) IsFailure() bool { return e.Code != 0 || e.Signal != 0 || e.MPI != "" }

// ExitOf returns the end of a rank as its agent reported it.
func ExitOf(e wire.Exit) Exit {
	return Exit{
		Rank:        e.Rank,
		Code:        e.Code,
		Signal:      e.Signal,
		Core:        e.Core,
		Stopped:     e.Stopped,
		Aborted:     e.Aborted,
		At:          e.At,
		MPI:         MPIEnd(e.MPI),
		Asked:       e.Asked,
		Failed:      e.Failed,
		Remedy:      e.Remedy,
		Program:     e.Program,
		MaxRSS:      e.MaxRSS,
		CPU:         e.CPU,
		OutOfMemory: OutOfMemory(e.OutOfMemory),
		MemoryLimit: e.MemoryLimit,
	}
}

// Describe returns how a rank ended, such as "exited with code 3".
func (e Exit) Describe() string {
	switch {
	case e.Failed != "":
		return "did not start: " + e.Failed
	case e.Stopped:
		return "was " + e.StopText()
	case e.MPI == MPIAborted:
		return fmt.Sprintf("called MPI_Abort(%d)", cmp.Or(e.Asked, e.Code))
	case e.MPI == MPIUnfinished:
		return "ended after MPI_Init without MPI_Finalize"
	case e.MPI == MPIAwaited:
		return fmt.Sprintf("exited with code 0 before MPI_Init, in which rank %d waits for it", e.Waiter)
	case e.Signal != 0:
		text := fmt.Sprintf("was killed by signal %d (%s)", e.Signal, signalName(syscall.Signal(e.Signal)))
		if e.Core {
			text += ", core dumped"
		}
		return text + shortOf(e)
	}
	return fmt.Sprintf("exited with code %d%s", e.Code, shortOf(e))
}

// signalName is the signal's common name, or its description.
func signalName(s syscall.Signal) string { return cmp.Or(unix.SignalName(s), s.String()) }

// shortOf names the memory that ran out for a rank, such as ": the host ran out of memory", or "".
func shortOf(e Exit) string {
	switch e.OutOfMemory {
	case MemoryOfGroup:
		return fmt.Sprintf(": its cgroup's memory limit of %s was reached", prose.Size(e.MemoryLimit))
	case MemoryOfHost:
		return ": the host ran out of memory"
	case MemoryLikely:
		return ": the host ran out of memory, it seems"
	}
	return ""
}

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
