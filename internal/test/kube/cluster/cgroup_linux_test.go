package cluster

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHierarchies(t *testing.T) {
	for _, tc := range []struct{ name, text, without, want string }{
		{"version 2", "0::/user.slice\n", "", "/sys/fs/cgroup/user.slice"},
		{"version 1 and 2", "4:memory:/a\n2:cpu,cpuacct:/b\n1:name=systemd:/c\n0::/d\n", "",
			"/sys/fs/cgroup/memory/a /sys/fs/cgroup/cpu,cpuacct/b /sys/fs/cgroup/systemd/c"},
		{"not mounted", "4:memory:/a\n3:misc:/\n", "/sys/fs/cgroup/misc", "/sys/fs/cgroup/memory/a"},
		{"none", "", "", ""},
	} {
		all := hierarchies(tc.text, func(folder string) bool { return folder != tc.without })
		var own []string
		for _, h := range all {
			own = append(own, h.own)
		}
		if got := strings.Join(own, " "); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// The controllers that kubelet needs are made available, or the first that is not there is named.
func TestDelegate(t *testing.T) {
	for _, tc := range []struct{ offered, want string }{
		{"cpuset cpu io memory hugetlb pids rdma misc\n", "+cpuset +cpu +io +memory +pids"},
		{"hugetlb\n", `does not have the controller "cpuset": a hierarchy of version 1 holds it`},
		{"cpuset cpu io pids\n", `does not have the controller "memory"`},
		{"", "does not have"},
	} {
		group := t.TempDir()
		for name, text := range map[string]string{"cgroup.controllers": tc.offered, "cgroup.subtree_control": ""} {
			if err := os.WriteFile(filepath.Join(group, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := delegate(group)
		written, _ := os.ReadFile(filepath.Join(group, "cgroup.subtree_control"))
		got := string(written)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%q: %s, want %q", tc.offered, got, tc.want)
		}
	}
}
