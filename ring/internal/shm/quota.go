package shm

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// quota returns the CPU limit of this process in processors: the lowest of its control
// group and those above. +Inf is no limit. fsys is the root of the file system.
//
// If a container sees only its own groups, at the root of the mount, the path in
// /proc/self/cgroup does not exist; the walk up ends at the root, which has them.
func quota(fsys fs.FS) float64 {
	text, err := fs.ReadFile(fsys, "proc/self/cgroup")
	if err != nil {
		return math.Inf(1)
	}
	unified, cpu := parseCgroups(string(text))
	cores := math.Inf(1)
	for _, root := range []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"} {
		upwards(unified, func(group string) {
			cores = min(cores, parseCPUMax(read(fsys, root, group, "cpu.max")))
		})
	}
	for _, root := range []string{"sys/fs/cgroup/cpu", "sys/fs/cgroup/cpu,cpuacct"} {
		upwards(cpu, func(group string) {
			cores = min(cores, parseQuota(read(fsys, root, group, "cpu.cfs_quota_us"),
				read(fsys, root, group, "cpu.cfs_period_us")))
		})
	}
	return cores
}

// parseCgroups finds in /proc/self/cgroup the process's group in the unified
// hierarchy, and in that of version 1 that has the cpu controller; "" if none.
func parseCgroups(text string) (unified, cpu string) {
	for line := range strings.Lines(text) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, group, found := strings.Cut(rest, ":")
		if !found || !strings.HasPrefix(group, "/") {
			continue
		}
		if id == "0" && controllers == "" {
			unified = group
		}
		for name := range strings.SplitSeq(controllers, ",") {
			if name == "cpu" {
				cpu = group
			}
		}
	}
	return unified, cpu
}

// upwards calls f for a group and all above it, or not at all if group is empty.
func upwards(group string, f func(group string)) {
	if group == "" {
		return
	}
	group = path.Clean(group)
	for {
		f(group)
		if group == "/" {
			return
		}
		group = path.Dir(group)
	}
}

// read returns a file's text, or "" if it cannot be read.
func read(fsys fs.FS, elem ...string) string {
	text, err := fs.ReadFile(fsys, path.Join(elem...))
	if err != nil {
		return ""
	}
	return string(text)
}

// parseCPUMax reads a cpu.max: "QUOTA PERIOD" in microseconds, where QUOTA may be
// "max". No limit and malformed text are +Inf.
func parseCPUMax(text string) float64 {
	fields := strings.Fields(text)
	if len(fields) != 2 {
		return math.Inf(1)
	}
	return parseQuota(fields[0], fields[1])
}

// parseQuota returns quota / period, of numbers in microseconds. A quota below 1 is no
// limit.
func parseQuota(quota, period string) float64 {
	q, err1 := strconv.ParseInt(strings.TrimSpace(quota), 10, 64)
	p, err2 := strconv.ParseInt(strings.TrimSpace(period), 10, 64)
	if err1 != nil || err2 != nil || q < 1 || p < 1 {
		return math.Inf(1)
	}
	return float64(q) / float64(p)
}
