package contain

import (
	"bytes"
	"os"
	"strconv"
)

// ownGroups holds /proc's description of this process's cgroups.
type ownGroups struct{ mounts, groups string }

func readOwn() ownGroups {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return ownGroups{string(mounts), string(groups)}
}

// folder returns the folder of this process's cgroup (v1 with the controller, or v2), or "" if it
// is not visible.
func (o ownGroups) folder(controller string, v1 bool) string {
	for _, m := range Mounts(o.mounts, controller) {
		if folder, sure := m.folder(o.groups); sure && m.V1 == v1 {
			return folder
		}
	}
	return ""
}

// parsePids parses a cgroup.procs file, in which processes of other pid namespaces are 0.
func parsePids(text []byte) (pids []int) {
	for field := range bytes.FieldsSeq(text) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}
