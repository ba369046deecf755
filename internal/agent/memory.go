package agent

import (
	"syscall"

	"github.com/gorun/gorun/internal/wire"
)

// memoryReading is what the kernel has counted about memory that ran out, up to one moment.
type memoryReading struct {
	groups []groupReading // the agent's memory cgroup, and those it is in, lowest first
	kills  int64          // processes of the whole host killed for want of memory
	total  int64          // bytes of memory the host has
}

// groupReading is about one memory cgroup.
type groupReading struct {
	limit int64 // bytes; 0: none
	kills int64 // of its processes, for want of memory, ranks' or not
	full  int64 // how often an allocation failed at its limit
}

// outOfMemory reports whether the kernel killed a rank because memory ran out, and at which limit. before
// was read when no rank ran, now after its end; blamed is the number of kills that earlier
// ranks account for. It is pure.
func outOfMemory(before, now memoryReading, blamed, maxRSS int64) (short wire.OutOfMemory, limit int64) {
	if len(now.groups) == 0 || len(before.groups) != len(now.groups) {
		// The kernel's counters do not name a process: a rank that used next to nothing was not killed.
		if now.kills-before.kills > blamed && maxRSS >= now.total/100 {
			return wire.MemoryLikely, 0
		}
		return "", 0
	}
	if now.groups[0].kills-before.groups[0].kills <= blamed {
		return "", 0
	}
	for i, g := range now.groups {
		if g.limit > 0 && g.full > before.groups[i].full {
			return wire.MemoryOfGroup, g.limit
		}
	}
	return wire.MemoryOfHost, 0
}

// mayLackMemory reports whether an end is one that the kernel's OOM killer makes: of a rank
// itself, or of the command of a shell.
func mayLackMemory(status syscall.WaitStatus) bool {
	return status.Signaled() && status.Signal() == syscall.SIGKILL || status.Exited() && status.ExitStatus() == wire.SignalCode(syscall.SIGKILL)
}
