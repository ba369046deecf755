package contain

import (
	"bytes"
	"os"
	"strconv"
)

// ownGroups is where this process is in the trees of cgroups.
type ownGroups struct{ mounts, groups string }

func readOwn() ownGroups {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	groups, _ := os.ReadFile("/proc/self/cgroup")
	return ownGroups{string(mounts), string(groups)}
}

// folder is the folder of this process's cgroup, of v1 with the controller or of v2; "": it is not to be seen.
func (o ownGroups) folder(controller string, v1 bool) string {
	for _, m := range Mounts(o.mounts, controller) {
		if folder, sure := m.folder(o.groups); sure && m.V1 == v1 {
			return folder
		}
	}
	return ""
}

// parsePids reads a cgroup.procs. Processes of other namespaces are 0 there.
func parsePids(text []byte) (pids []int) {
	for field := range bytes.FieldsSeq(text) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}
