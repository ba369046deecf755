package agent

import (
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// noLimit is what cgroup v1 says about where there is none, rounded down to pages.
const noLimit = 1 << 60

// readMemory reads what the kernel tells of memory that ran out. root is /, or stands for it.
func readMemory(root string) memoryReading {
	r := memoryReading{
		kills: readCount(filepath.Join(root, "proc/vmstat"), "oom_kill"),
		total: readCount(filepath.Join(root, "proc/meminfo"), "MemTotal:") << 10,
	}
	own, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	mounts, _ := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	for _, m := range memoryMounts(string(mounts)) {
		for _, folder := range m.folders(string(own)) {
			if g, found := m.read(filepath.Join(root, folder)); found {
				r.groups = append(r.groups, g)
			}
		}
	}
	return r
}

// cgroupMount is a place where memory cgroups are to be seen.
type cgroupMount struct {
	v1          bool
	root, point string // of the cgroups' tree, what is mounted; where it is
}

// memoryMounts finds the mounts that may hold memory cgroups in /proc/self/mountinfo, see proc(5).
func memoryMounts(mountinfo string) (found []cgroupMount) {
	for line := range strings.Lines(mountinfo) {
		place, kind, _ := strings.Cut(line, " - ")
		fields, about := strings.Fields(place), strings.Fields(kind)
		if len(fields) < 5 || len(about) < 3 {
			continue
		}
		v1 := about[0] == "cgroup" && strings.Contains(","+about[2]+",", ",memory,")
		if v1 || about[0] == "cgroup2" {
			found = append(found, cgroupMount{v1: v1, root: fields[3], point: fields[4]})
		}
	}
	return found
}

// folders are the places of the cgroup that /proc/self/cgroup names, and of those it is in, lowest first.
func (m cgroupMount) folders(own string) (all []string) {
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || m.v1 != strings.Contains(","+parts[1]+",", ",memory,") || !m.v1 && parts[0] != "0" {
			continue
		}
		// In a container only the part below its own cgroup is mounted.
		below, seen := strings.CutPrefix(parts[2], strings.TrimSuffix(m.root, "/"))
		if !seen {
			below = "/"
		}
		for below = path.Clean("/" + below); ; below = path.Dir(below) {
			all = append(all, path.Join(m.point, below))
			if below == "/" {
				return all
			}
		}
	}
	return all
}

// read reads one cgroup, if it counts memory: the topmost does not, and one without the controller.
func (m cgroupMount) read(folder string) (g groupReading, found bool) {
	file := func(name string) string { return filepath.Join(folder, name) }
	if m.v1 {
		if _, err := os.Stat(file("memory.oom_control")); err != nil {
			return g, false
		}
		g = groupReading{limit: readNumber(file("memory.limit_in_bytes")), kills: readCount(file("memory.oom_control"), "oom_kill"), full: readNumber(file("memory.failcnt"))}
		if g.limit >= noLimit {
			g.limit = 0
		}
		return g, true
	}
	if _, err := os.Stat(file("memory.events")); err != nil {
		return g, false
	}
	return groupReading{limit: readNumber(file("memory.max")), kills: readCount(file("memory.events"), "oom_kill"), full: readCount(file("memory.events"), "oom")}, true
}

// readNumber is the number that a file holds; 0 for a word, such as max.
func readNumber(name string) int64 {
	text, _ := os.ReadFile(name)
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// readCount is the number after a key at the start of a line; 0 if there is none.
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
