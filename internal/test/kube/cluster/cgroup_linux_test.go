package cluster

import (
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
