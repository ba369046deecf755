package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchy is a cgroup hierarchy of this machine.
type hierarchy struct {
	name  string // of its folder in /sys/fs/cgroup; "" for version 2
	mount string // option of mount for version 1: "cpu", "name=systemd"
	own   string // the folder of this process's cgroup
}

// hierarchies returns those that can be used. text is /proc/self/cgroup.
func hierarchies(text string, exists func(folder string) bool) (all []hierarchy) {
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		h := hierarchy{name: strings.TrimPrefix(fields[1], "name="), mount: fields[1]}
		h.own = filepath.Join(cgroupRoot, h.name, fields[2])
		if exists(h.own) {
			all = append(all, h)
		}
	}
	isVersion2 := func(h hierarchy) bool { return h.name == "" }
	if len(all) > 1 { // beside version 1, version 2 has no controllers, and kubelet does not want to see it
		all = slices.DeleteFunc(all, isVersion2)
	}
	return all
}

func ownHierarchies() ([]hierarchy, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	return hierarchies(string(text), func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, "cgroup.procs"))
		return err == nil
	}), nil
}

// makeGroups makes cgroups for each node, and lists them in DIR/cgroups for the guardian.
func makeGroups(dir string, nodes int) (groups [][]string, err error) {
	all, err := ownHierarchies()
	if err != nil {
		return nil, err
	}
	list := ""
	for number := 1; number <= nodes; number++ {
		var own []string
		for _, h := range all {
			group := filepath.Join(h.own, filepath.Base(dir)+"-"+nodeName(number))
			own = append(own, group)
			list += group + "\n"
		}
		groups = append(groups, own)
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroups"), []byte(list), 0o600); err != nil {
		return nil, err
	}
	for _, own := range groups {
		for i, group := range own {
			if err := makeGroup(all[i], group); err != nil {
				return nil, fmt.Errorf("make a cgroup for a node: %w", err)
			}
		}
	}
	return groups, nil
}

func makeGroup(h hierarchy, group string) error {
	if h.name == "" {
		if err := delegate(h.own); err != nil {
			return err
		}
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	if h.name != "cpuset" {
		return nil
	}
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} { // empty in a new group of version 1
		text, err := os.ReadFile(filepath.Join(h.own, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(group, name), text, 0); err != nil {
			return err
		}
	}
	return nil
}

// delegate makes the controllers that kubelet needs available below a cgroup of version 2.
func delegate(group string) error {
	needed := []string{"cpuset", "cpu", "io", "memory", "pids"}
	text, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return err
	}
	offered := strings.Fields(string(text))
	for _, name := range needed {
		if !slices.Contains(offered, name) {
			return fmt.Errorf("%s does not have the controller %q: a hierarchy of version 1 holds it, or this "+
				"container was not given it", group, name)
		}
	}
	err = os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+strings.Join(needed, " +")), 0)
	if errors.Is(err, syscall.EBUSY) {
		return fmt.Errorf("%s has processes, so version 2 lets none of its cgroups have controllers: run this as a "+
			"process of the root cgroup: %w", group, err)
	}
	return err
}

// joinGroups moves this process into the cgroups of its node.
func joinGroups(groups []string) error {
	for _, group := range groups {
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte("0"), 0); err != nil {
			return err
		}
	}
	return nil
}
