package memory

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/host/contain"
)

// noLimit is cgroup v1's number for no limit, rounded down to pages.
const noLimit = 1 << 60

// Read reads the kernel's counters about memory that ran out. root is /, or a copy of it.
func Read(root string) Reading {
	r := Reading{
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
func readGroup(v1 bool, folder string) (g Group, found bool) {
	file := func(name string) string { return filepath.Join(folder, name) }
	if v1 {
		if _, err := os.Stat(file("memory.oom_control")); err != nil {
			return g, false
		}
		g = Group{
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
	return Group{
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
