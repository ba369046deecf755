package agent

import (
	"fmt"
	"maps"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
)

const gib = 1 << 30

func TestOutOfMemory(t *testing.T) {
	group := func(limit, kills, full int64) memoryGroup { return memoryGroup{Limit: limit, Kills: kills, Full: full} }
	peak := func(g memoryGroup, bytes int64) memoryGroup {
		g.Peak = bytes
		return g
	}
	host := func(kills int64, groups ...memoryGroup) memoryReading {
		return memoryReading{Groups: groups, Kills: kills, Total: 64 * gib}
	}
	for _, tc := range []struct {
		name        string
		before, now memoryReading
		blamed      int64
		maxRSS      int64
		want        wire.OutOfMemory
		limit       int64
	}{
		{"nothing", host(3, group(gib, 0, 0)), host(3, group(gib, 0, 0)), 0, gib, "", 0},
		{"its own limit", host(3, group(gib, 2, 9)), host(4, group(gib, 3, 10)), 0, gib, wire.MemoryOfGroup, gib},
		{"a limit further up", host(0, group(0, 0, 0), group(2*gib, 5, 7)), host(1, group(0, 1, 0), group(2*gib, 6, 8)),
			0, gib, wire.MemoryOfGroup, 2 * gib},
		{"both are full, and the lower one is meant", host(0, group(gib, 0, 0), group(2*gib, 0, 0)),
			host(1, group(gib, 1, 1), group(2*gib, 1, 1)), 0, gib, wire.MemoryOfGroup, gib},
		{"the host, though there is a limit", host(0, group(gib, 0, 4)), host(1, group(gib, 1, 4)), 0, gib,
			wire.MemoryOfHost, 0},
		{"a pod's, above its container's", host(0, group(gib, 0, 0)), host(1, peak(group(gib, 1, 0), gib-gib/100)),
			0, gib, wire.MemoryOfGroup, gib},
		{"one above the second", host(0, group(0, 0, 0), group(gib, 0, 0)),
			host(1, peak(group(0, 1, 0), gib), peak(group(gib, 1, 0), gib)), 0, gib, wire.MemoryOfGroup, gib},
		{"the host, far below a limit", host(0, group(4*gib, 0, 0)), host(1, peak(group(4*gib, 1, 0), 3*gib)), 0, gib,
			wire.MemoryOfHost, 0},
		{"somebody else's", host(0, group(gib, 0, 0), group(0, 0, 0)), host(1, group(gib, 0, 0), group(0, 1, 1)), 0,
			gib, "", 0},
		{"an earlier rank's", host(0, group(gib, 0, 0)), host(1, group(gib, 1, 1)), 1, gib, "", 0},
		{"a second rank's", host(0, group(gib, 0, 0)), host(2, group(gib, 2, 2)), 1, gib, wire.MemoryOfGroup, gib},
		{"no cgroup, and large", host(0), host(1), 0, gib, wire.MemoryLikely, 0},
		{"no cgroup, and small", host(0), host(1), 0, 8 << 20, "", 0},
		{"no cgroup, and nobody was killed", host(1), host(1), 0, 40 * gib, "", 0},
		{"the cgroups changed", host(0, group(gib, 0, 0)), host(1, group(gib, 1, 1), group(0, 1, 1)), 0, gib,
			wire.MemoryLikely, 0},
	} {
		if got, limit := outOfMemory(tc.before, tc.now, tc.blamed, tc.maxRSS); got != tc.want || limit != tc.limit {
			t.Errorf("%s: %q at %d, want %q at %d", tc.name, got, limit, tc.want, tc.limit)
		}
	}
}

// TestReadMemory reads /proc and cgroups as found on several systems.
func TestReadMemory(t *testing.T) {
	proc := map[string]string{"proc/vmstat": "pgfault 12\noom_kill 3\n",
		"proc/meminfo": "MemTotal:       24684176 kB\nMemFree: 1 kB\n"}
	v2 := "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
	events := func(oom, kills int) string {
		return fmt.Sprintf("low 0\nhigh 0\nmax 77\noom %d\noom_kill %d\noom_group_kill 0\n", oom, kills)
	}
	v1 := func(kills int) string { return fmt.Sprintf("oom_kill_disable 0\nunder_oom 0\noom_kill %d\n", kills) }
	const unlimited = "9223372036854771712\n"
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"a session of systemd": {map[string]string{
			"proc/self/cgroup":    "0::/user.slice/user-1000.slice/session-3.scope\n",
			"proc/self/mountinfo": "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" + v2,
			"sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/memory.events": events(0, 2),
			"sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope/memory.max":    "max\n",
			"sys/fs/cgroup/user.slice/user-1000.slice/memory.events":                 events(4, 5),
			"sys/fs/cgroup/user.slice/user-1000.slice/memory.max":                    "2147483648\n",
			"sys/fs/cgroup/user.slice/memory.events":                                 events(4, 6),
			"sys/fs/cgroup/user.slice/memory.max":                                    "max\n",
		}, "[{0 2 0 0} {2147483648 5 4 0} {0 6 4 0}] 3"},
		"a container with its own view": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/memory.events": events(1, 1), "sys/fs/cgroup/memory.max": "1073741824\n",
			"sys/fs/cgroup/memory.peak": "1073000000\n",
		}, "[{1073741824 1 1 1073000000}] 3"},
		"without the controller": {map[string]string{
			"proc/self/cgroup": "0::/init.scope\n", "proc/self/mountinfo": v2,
			"sys/fs/cgroup/init.scope/cgroup.procs": "1\n",
		}, "[] 3"},
		"v1, beside a v2 without memory": {map[string]string{
			"proc/self/cgroup": "9:name=systemd:/\n4:memory:/slurm/uid_0/job_7\n1:cpu:/\n0::/\n",
			"proc/self/mountinfo": "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n35 31 0:32 / " +
				"/sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n" +
				"41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.oom_control":        v1(1),
			"sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.limit_in_bytes":     "67108864\n",
			"sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.failcnt":            "83\n",
			"sys/fs/cgroup/memory/slurm/uid_0/job_7/memory.max_usage_in_bytes": "67000000\n",
			"sys/fs/cgroup/memory/slurm/uid_0/memory.oom_control":              v1(0),
			"sys/fs/cgroup/memory/slurm/uid_0/memory.limit_in_bytes":           unlimited,
			"sys/fs/cgroup/memory/slurm/uid_0/memory.failcnt":                  "0\n",
		}, "[{67108864 1 83 67000000} {0 0 0 0}] 3"},
		"v1 in a container that sees the host's names": {map[string]string{
			"proc/self/cgroup": "4:cpu,memory:/docker/0123abcd/sub\n",
			"proc/self/mountinfo": "35 31 0:32 /docker/0123abcd /sys/fs/cgroup/memory ro - " +
				"cgroup cgroup rw,cpu,memory\n",
			"sys/fs/cgroup/memory/sub/memory.oom_control":    v1(2),
			"sys/fs/cgroup/memory/sub/memory.limit_in_bytes": unlimited,
			"sys/fs/cgroup/memory/sub/memory.failcnt":        "0\n",
			"sys/fs/cgroup/memory/memory.oom_control":        v1(0),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "536870912\n",
			"sys/fs/cgroup/memory/memory.failcnt":            "5\n",
		}, "[{0 2 0 0} {536870912 0 5 0}] 3"},
		"nonsense": {map[string]string{"proc/self/cgroup": "x\n::\n0:\n", "proc/self/mountinfo": "a b - c\n - \n" + v2},
			"[] 3"},
	} {
		maps.Copy(tc.files, proc)
		r := readMemory(files.Make(t, tc.files))
		got := fmt.Sprint(append([]memoryGroup{}, r.Groups...), " ", r.Kills)
		check.That(t, got == tc.want && r.Total == 24684176<<10, "%s: %s of %d, want %s", name, got, r.Total, tc.want)
	}
	r := readMemory(t.TempDir())
	check.That(t, r.Groups == nil && r.Kills == 0, "without /proc: %+v", r)
}
