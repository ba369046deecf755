// Package memory finds out whether the kernel killed a rank because memory ran out.
package memory

import (
	"slices"
	"syscall"

	"github.com/gorun/gorun/internal/net/wire"
)

// Reading holds the kernel's counters of memory that ran out, at one moment.
type Reading struct {
	Groups []Group // the agent's memory cgroup, and those it is in, lowest first
	Kills  int64   // processes of the whole host killed for want of memory
	Total  int64   // bytes of memory the host has
}

// Group is about one memory cgroup.
type Group struct {
	Limit int64 // bytes; 0: none
	Kills int64 // processes of the group killed for want of memory
	Full  int64 // number of allocations that failed at the limit
	Peak  int64 // bytes; 0: unknown
}

// wasFull reports whether the group came so near its limit that a group above it, which a container
// does not see, may have reached the same one: a pod's limit is that of its containers, and the pod
// itself uses some of it.
func (g Group) wasFull() bool { return g.Limit > 0 && g.Peak >= g.Limit-g.Limit/16 }

// OutOfMemory reports whether the kernel killed a rank because memory ran out, and at which limit.
// before was read when no rank ran, now after its end; blamed is the number of kills that earlier
// ranks account for. It is pure.
func OutOfMemory(before, now Reading, blamed, maxRSS int64) (short wire.OutOfMemory, limit int64) {
	if len(now.Groups) == 0 || len(before.Groups) != len(now.Groups) {
		// The kernel's counters do not name a process: a rank that used next to nothing was not
		// killed.
		if now.Kills-before.Kills > blamed && maxRSS >= now.Total/100 {
			return wire.MemoryLikely, 0
		}
		return "", 0
	}
	if now.Groups[0].Kills-before.Groups[0].Kills <= blamed {
		return "", 0
	}
	for i, g := range now.Groups {
		if g.Limit > 0 && g.Full > before.Groups[i].Full {
			return wire.MemoryOfGroup, g.Limit
		}
	}
	if full := slices.IndexFunc(now.Groups, Group.wasFull); full >= 0 {
		return wire.MemoryOfGroup, now.Groups[full].Limit
	}
	return wire.MemoryOfHost, 0
}

// MayLack reports whether an end is one that the kernel's OOM killer makes: of a rank
// itself, or of the command of a shell.
func MayLack(status syscall.WaitStatus) bool {
	return status.Signaled() && status.Signal() == syscall.SIGKILL || status.Exited() &&
		status.ExitStatus() == wire.SignalCode(syscall.SIGKILL)
}
