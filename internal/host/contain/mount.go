package contain

import (
	"path"
	"strings"
)

// Mount is a mounted cgroup tree.
type Mount struct {
	V1          bool
	Root, Point string // mounted part of the tree, and its mount point
	controller  string
}

// Mounts returns the mounts in mountinfo (/proc/self/mountinfo, see proc(5)) whose cgroups may have
// the controller: those of v1 with it, and all of v2.
func Mounts(mountinfo, controller string) (found []Mount) {
	for line := range strings.Lines(mountinfo) {
		place, kind, _ := strings.Cut(line, " - ")
		fields := strings.Fields(place)
		about := strings.Fields(kind)
		if len(fields) < 5 || len(about) < 3 {
			continue
		}
		v1 := about[0] == "cgroup" && lists(about[2], controller)
		if v1 || about[0] == "cgroup2" {
			found = append(found, Mount{
				V1:         v1,
				Root:       fields[3],
				Point:      fields[4],
				controller: controller,
			})
		}
	}
	return found
}

// lists reports whether a comma-separated list has a word.
func lists(list, word string) bool { return strings.Contains(","+list+",", ","+word+",") }

// own returns the path, below the mount point, of the cgroup that text (/proc/self/cgroup) names.
// found reports whether text names a group of this kind, seen whether the group is below the
// mounted part.
func (m Mount) own(text string) (below string, found, seen bool) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || m.V1 && !lists(parts[1], m.controller) || !m.V1 && (parts[0] != "0" || parts[1] != "") {
			continue
		}
		// A container mounts only the part below its own cgroup.
		below, seen = strings.CutPrefix(parts[2], strings.TrimSuffix(m.Root, "/"))
		if !seen {
			below = "/"
		}
		return path.Clean("/" + below), true, seen && !strings.Contains(below, "..")
	}
	return "", false, false
}

// Folders returns the folders of the cgroup that own (/proc/self/cgroup) names and of its
// ancestors, lowest first.
func (m Mount) Folders(own string) (all []string) {
	below, found, _ := m.own(own)
	for ; found; below = path.Dir(below) {
		all = append(all, path.Join(m.Point, below))
		found = below != "/"
	}
	return all
}

// folder returns the folder of the cgroup that own names, if it is certainly visible in this mount.
func (m Mount) folder(own string) (folder string, sure bool) {
	below, _, seen := m.own(own)
	return path.Join(m.Point, below), seen
}
