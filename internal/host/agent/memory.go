package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/net/wire"
)

// memoryReading holds the kernel's counters of memory that ran out, at one moment.
type memoryReading struct {
	Groups []memoryGroup // the agent's memory cgroup, and those it is in, lowest first
	Kills  int64         // processes of the whole host killed for want of memory
	Total  int64         // bytes of memory the host has
}

// memoryGroup is about one memory cgroup.
type memoryGroup struct {
	Limit int64 // bytes; 0: none
	Kills int64 // processes of the group killed for want of memory
	Full  int64 // number of allocations that failed at the limit
	Peak  int64 // bytes; 0: unknown
}

// wasFull reports whether the group came so near its limit that a group above it, which a container
// does not see, may have reached the same one: a pod's limit is that of its containers, and the pod
// itself uses some of it.
func (g memoryGroup) wasFull() bool { return g.Limit > 0 && g.Peak >= g.Limit-g.Limit/16 }

// outOfMemory reports whether the kernel killed a rank because memory ran out, and at which limit.
// before was read when no rank ran, now after its end; blamed is the number of kills that earlier
// ranks account for. It is pure.
func outOfMemory(before, now memoryReading, blamed, maxRSS int64) (short wire.OutOfMemory, limit int64) {
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
	if full := slices.IndexFunc(now.Groups, memoryGroup.wasFull); full >= 0 {
		return wire.MemoryOfGroup, now.Groups[full].Limit
	}
	return wire.MemoryOfHost, 0
}

// mayLackMemory reports whether an end is one that the kernel's OOM killer makes: of a rank
// itself, or of the command of a shell.
func mayLackMemory(status syscall.WaitStatus) bool {
	return status.Signaled() && status.Signal() == syscall.SIGKILL || status.Exited() &&
		status.ExitStatus() == wire.SignalCode(syscall.SIGKILL)
}

// noLimit is cgroup v1's number for no limit, rounded down to pages.
const noLimit = 1 << 60

// readMemory reads the kernel's counters about memory that ran out. root is /, or a copy of it.
func readMemory(root string) memoryReading {
	r := memoryReading{
		Kills: readCount(filepath.Join(root, "proc/vmstat"), "oom_kill"),
		Total: readCount(filepath.Join(root, "proc/meminfo"), "MemTotal:") << 10,
	}
	own, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	mounts, _ := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	for _, m := range contain.Mounts(string(mounts), "memory") {
		for _, folder := range m.Folders(string(own)) {
			if g, found := readGroup(m.V1, filepath.Join(root, folder)); found {
				r.Groups = append(r.Groups, g)
			}
		}
	}
	return r
}

// readGroup reads one cgroup, if it counts memory: the topmost does not, and one without the
// controller.
func readGroup(v1 bool, folder string) (g memoryGroup, found bool) {
	file := func(name string) string { return filepath.Join(folder, name) }
	if v1 {
		if _, err := os.Stat(file("memory.oom_control")); err != nil {
			return g, false
		}
		g = memoryGroup{
			Limit: readNumber(file("memory.limit_in_bytes")),
			Kills: readCount(file("memory.oom_control"), "oom_kill"),
			Full:  readNumber(file("memory.failcnt")),
			Peak:  readNumber(file("memory.max_usage_in_bytes")),
		}
		if g.Limit >= noLimit {
			g.Limit = 0
		}
		return g, true
	}
	if _, err := os.Stat(file("memory.events")); err != nil {
		return g, false
	}
	return memoryGroup{
		Limit: readNumber(file("memory.max")),
		Kills: readCount(file("memory.events"), "oom_kill"),
		Full:  readCount(file("memory.events"), "oom"),
		Peak:  readNumber(file("memory.peak")),
	}, true
}

// readNumber is the number in a file, and 0 for a word such as max.
func readNumber(name string) int64 {
	text, _ := os.ReadFile(name)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// readCount is the number after a key at the start of a line, or 0.
func readCount(name, key string) int64 {
	text, _ := os.ReadFile(name)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == key {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			return n
		}
	}
	return 0
}
