package shm

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestQuota(t *testing.T) {
	inf := math.Inf(1)
	tests := []struct {
		what  string
		files map[string]string
		want  float64
	}{
		{"no control groups", nil, inf},
		{"unlimited", map[string]string{
			"proc/self/cgroup":         "0::/a\n",
			"sys/fs/cgroup/a/cpu.max":  "max 100000\n",
			"sys/fs/cgroup/a/cpu.stat": "usage_usec 1\n",
		}, inf},
		{"one and a half", map[string]string{
			"proc/self/cgroup":        "0::/a\n",
			"sys/fs/cgroup/a/cpu.max": "150000 100000\n",
		}, 1.5},
		{"a group above has less", map[string]string{
			"proc/self/cgroup":            "0::/a/b/c\n",
			"sys/fs/cgroup/a/cpu.max":     "50000 100000\n",
			"sys/fs/cgroup/a/b/cpu.max":   "max 100000\n",
			"sys/fs/cgroup/a/b/c/cpu.max": "400000 100000\n",
		}, 0.5},
		{"a container that sees its own group at the root", map[string]string{
			"proc/self/cgroup":      "0::/docker/0123\n",
			"sys/fs/cgroup/cpu.max": "200000 100000\n",
		}, 2},
		{"outside of its namespace", map[string]string{
			"proc/self/cgroup":      "0::/../..\n",
			"sys/fs/cgroup/cpu.max": "200000 100000\n",
		}, 2},
		{"version 1", map[string]string{
			"proc/self/cgroup": "9:name=systemd:/x\n4:cpu,cpuacct:/a\n0::/\n",
			"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us":  "300000\n",
			"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":    "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":   "100000\n",
		}, 3},
		{"version 1 without limit", map[string]string{
			"proc/self/cgroup":                    "1:cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
		}, inf},
		{"another group's files", map[string]string{
			"proc/self/cgroup":        "1:cpuset:/a\n2:cpuacct:/a\n",
			"sys/fs/cgroup/a/cpu.max": "100000 100000\n",
		}, inf},
		{"nonsense", map[string]string{
			"proc/self/cgroup":        "0:\n0::a\n\n::\n0::/a\n",
			"sys/fs/cgroup/a/cpu.max": "-5 0\n",
			"sys/fs/cgroup/cpu.max":   "many\n",
		}, inf},
	}
	for _, tt := range tests {
		root := fstest.MapFS{}
		for name, text := range tt.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := quota(root); got != tt.want {
			t.Errorf("%s: %v cores, want %v", tt.what, got, tt.want)
		}
	}
}
