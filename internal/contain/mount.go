package contain

import (
	"path"
	"strings"
)

// Mount is a place where cgroups are to be seen.
type Mount struct {
	V1          bool
	Root, Point string // of the cgroups' tree, what is mounted; where it is
	controller  string
}

// Mounts finds the mounts in mountinfo, which is /proc/self/mountinfo (see proc(5)), that may hold cgroups with the
// controller: those of v1 with it, and those of v2.
func Mounts(mountinfo, controller string) (found []Mount) {
	for line := range strings.Lines(mountinfo) {
		place, kind, _ := strings.Cut(line, " - ")
		fields, about := strings.Fields(place), strings.Fields(kind)
		if len(fields) < 5 || len(about) < 3 {
			continue
		}
		v1 := about[0] == "cgroup" && lists(about[2], controller)
		if v1 || about[0] == "cgroup2" {
			found = append(found, Mount{V1: v1, Root: fields[3], Point: fields[4], controller: controller})
		}
	}
	return found
}

// lists reports that a word is in a list with commas.
func lists(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// own is the path below the mount's point of the cgroup that text, /proc/self/cgroup, names.
// found is false when it names none of this kind, seen when the group is not below what is mounted.
func (m Mount) own(text string) (below string, found, seen bool) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || m.V1 && !lists(parts[1], m.controller) || !m.V1 && (parts[0] != "0" || parts[1] != "") {
			continue
		}
		// In a container only the part below its own cgroup is mounted.
		below, seen = strings.CutPrefix(parts[2], strings.TrimSuffix(m.Root, "/"))
		if !seen {
			below = "/"
		}
		return path.Clean("/" + below), true, seen && !strings.Contains(below, "..")
	}
	return "", false, false
}

// Folders are the places of the cgroup that own, /proc/self/cgroup, names, and of those it is in, lowest first.
func (m Mount) Folders(own string) (all []string) {
	below, found, _ := m.own(own)
	for ; found; below = path.Dir(below) {
		all = append(all, path.Join(m.Point, below))
		found = below != "/"
	}
	return all
}

// folder is the place of the cgroup that own names, if it is to be seen there for sure.
func (m Mount) folder(own string) (folder string, sure bool) {
	below, _, seen := m.own(own)
	return path.Join(m.Point, below), seen
}
