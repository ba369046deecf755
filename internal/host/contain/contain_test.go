package contain

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestGuardsHaveNames(t *testing.T) {
	self, err := Self()
	must.That(t, err == nil && self.pid == os.Getpid() && self.namespace != 0 && self.started != 0,
		"%+v, %v", self, err)
	again, err := ParseGuard(self.String())
	check.That(t, again == self && err == nil, "%v became %v, %v", self, again, err)
	for _, text := range []string{"", "1", "1-2", "1-2-3-4", "a-2-3", "1--2-3", "1-0-3", "01-2-3", "1-2-3 ", "-1-2-3"} {
		g, err := ParseGuard(text)
		check.That(t, err != nil, "%q names %v", text, g)
	}
	gone := self
	other := self
	elsewhere := self
	gone.pid = 1 << 30
	other.started-- // who had the pid before
	elsewhere.namespace++
	elsewhere.pid = 1 << 30
	for name, tc := range map[string]struct {
		guard Guard
		dead  bool
	}{"itself": {self, false}, "a pid that is free": {gone, true}, "a pid that was reused": {other, true},
		"another namespace": {elsewhere, false}} {
		check.Equal(t, tc.guard.dead(self.namespace), tc.dead, name, "is dead")
	}
}

// The guard was born at 100, below the shell 5; init is 1.
func TestOrphansAreKnownByTheirParents(t *testing.T) {
	p := func(pid, parent int, started uint64) Process {
		return Process{
			PID:     pid,
			Parent:  parent,
			State:   'S',
			Started: started,
		}
	}
	all := map[int]Process{}
	for _, q := range []Process{p(1, 0, 1), p(5, 1, 50), p(20, 1, 110), p(21, 20, 120), p(22, 21, 130),
		p(30, 5, 105), p(31, 30, 115), p(40, 999, 140), p(50, 1, 100), p(51, 50, 150)} {
		all[q.PID] = q
	}
	for name, tc := range map[string]struct{ of, want []int }{
		"a daemon and its children":       {[]int{20, 21, 22}, []int{20, 21, 22}},
		"adopted by an older subreaper":   {[]int{30, 31}, []int{30, 31}},
		"below an agent that still lives": {[]int{31}, nil},
		"a parent that is not seen":       {[]int{40}, nil},
		"a parent as old as the guard":    {[]int{51}, nil},
		"none":                            {nil, nil},
	} {
		var of []Process
		for _, pid := range tc.of {
			of = append(of, all[pid])
		}
		var got []int
		for _, q := range orphans(of, Guard{namespace: 1, pid: 10, started: 100}, all) {
			got = append(got, q.PID)
		}
		check.That(t, slices.Equal(got, tc.want), "%s: %v, want %v", name, got, tc.want)
	}
}

// Groups are made only where this process is for sure: whoever accounts for it there goes on doing
// so.
func TestOwnFolder(t *testing.T) {
	const v2 = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	for name, tc := range map[string]struct {
		mounts, groups, controller string
		v1                         bool
		want                       string
	}{
		"a session": {v2, "0::/user.slice/session-3.scope\n", "", false,
			"/sys/fs/cgroup/user.slice/session-3.scope"},
		"a hybrid": {strings.ReplaceAll(v2, "/cgroup rw", "/cgroup/unified rw"), "8:pids:/\n0::/x\n", "",
			false, "/sys/fs/cgroup/unified/x"},
		"v1's, of two": {"35 31 0:32 / /c/cpu,pids rw - cgroup cgroup rw,cpu,pids\n" + v2,
			"8:cpu,pids:/job\n0::/x\n", "pids", true, "/c/cpu,pids/job"},
		"a container": {"35 31 0:32 /docker/1 /c/freezer rw - cgroup cgroup rw,freezer\n",
			"6:freezer:/docker/1/a\n", "freezer", true, "/c/freezer/a"},
		"outside of what shows": {"35 31 0:32 /docker/1 /c/freezer rw - cgroup cgroup rw,freezer\n",
			"6:freezer:/docker/2\n", "freezer", true, ""},
		"above the namespace": {v2, "0::/../other\n", "", false, ""},
		"no v1":               {v2, "0::/x\n", "freezer", true, ""},
		"no v2": {"35 31 0:32 / /c/freezer rw - cgroup cgroup rw,freezer\n", "6:freezer:/\n", "", false,
			""},
		"nothing": {"", "", "pids", true, ""},
	} {
		check.Equal(t, (ownGroups{tc.mounts, tc.groups}).folder(tc.controller, tc.v1), tc.want, name)
	}
}
