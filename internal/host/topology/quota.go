package topology

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Quota returns the CPU time, in CPUs, that the cgroups of this process allow (v1 and v2); 0 means
// no limit. root is the file system, normally /.
func Quota(root fs.FS) (cpus float64) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(fields) < 3 {
			continue
		}
		switch controllers := fields[1]; {
		case controllers == "":
			for _, mount := range []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"} {
				cpus = lower(cpus, least(root, mount, fields[2], maxOf))
			}
		case slices.Contains(strings.Split(controllers, ","), "cpu"):
			for _, mount := range []string{controllers, "cpu"} {
				cpus = lower(cpus, least(root, path.Join("sys/fs/cgroup", mount), fields[2], cfsOf))
			}
		}
	}
	return cpus
}

// least returns the lowest limit of a group and its ancestors. In a container the path may be the
// host's, of which only the end is mounted: groups that are not visible set no limit.
func least(root fs.FS, mount, group string, read func(root fs.FS, dir string) float64) (cpus float64) {
	for group = path.Clean("/" + group); ; group = path.Dir(group) {
		cpus = lower(cpus, read(root, path.Join(mount, group)))
		if group == "/" {
			return cpus
		}
	}
}

// lower returns the lower of two limits, where 0 means none.
func lower(a, b float64) float64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// maxOf reads cpu.max of version 2: a quota and a period, in microseconds, or max.
func maxOf(root fs.FS, dir string) float64 {
	text, _ := fs.ReadFile(root, path.Join(dir, "cpu.max"))
	if fields := strings.Fields(string(text)); len(fields) == 2 {
		return ratio(fields[0], fields[1])
	}
	return 0
}

// cfsOf reads the two files of version 1; a quota of -1 is no limit.
func cfsOf(root fs.FS, dir string) float64 {
	quota, _ := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	period, _ := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	return ratio(string(quota), string(period))
}

func ratio(quota, period string) float64 {
	q, err := strconv.ParseFloat(strings.TrimSpace(quota), 64)
	p, periodErr := strconv.ParseFloat(strings.TrimSpace(period), 64)
	if err != nil || periodErr != nil || !(q > 0) || !(p > 0) {
		return 0
	}
	return q / p
}
