package faults

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gorun/gorun/internal/lab"
)

// residue lists what a job could leave behind: names in shared memory, temporary directories, cgroups without processes,
// files in homes other than the agent's cache, and on hosts of their own listening sockets and sessions of sshd.
func residue(c *lab.Cluster) []string {
	all := named("/tmp", "/var/tmp", "/dev/shm")
	if c == nil {
		return append(all, cgroups("")...)
	}
	apart := false
	for i := range c.Hosts {
		h := &c.Hosts[i]
		own := namespace(h.PID, "net") != namespace(os.Getpid(), "net")
		apart = apart || own
		all = append(all, homeFiles(h)...)
		for _, pid := range lab.Children(h.PID) {
			all = append(all, fmt.Sprintf("session %d of sshd on %s: %s", pid, h.Name, describe([]int{pid})))
		}
		if !own {
			continue // what is the machine's, others use as well
		}
		all = append(all, named(fmt.Sprintf("/proc/%d/root/dev/shm", h.PID))...)
		all = append(all, cgroups(namespace(h.PID, "pid"))...)
		for _, addr := range listeners(h.PID) {
			all = append(all, fmt.Sprintf("listener %s on %s", addr, h.Name))
		}
	}
	if !apart {
		all = append(all, cgroups("")...)
	}
	return all
}

// named are the entries of folders that carry gorun's name, other than those of tests.
func named(dirs ...string) (found []string) {
	for _, dir := range dirs {
		names, _ := os.ReadDir(dir)
		for _, e := range names {
			if name := e.Name(); strings.Contains(name, "gorun") && !ofTests(name) {
				found = append(found, filepath.Join(dir, name))
			}
		}
	}
	return found
}

// ofTests reports whether a temporary folder is one of the tests' own, which run side by side.
func ofTests(name string) bool {
	for _, prefix := range []string{"gorun-lab-", "gorun-e2e-", "gorun-sweep-", "gorun-mutant-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// namespace is the number of one of a process's namespaces, or "".
func namespace(pid int, kind string) string {
	link, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	return strings.Trim(strings.TrimPrefix(link, kind), ":[]")
}

// cgroups are those without processes that carry gorun's name and text.
func cgroups(text string) (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || !strings.Contains(d.Name(), "gorun") || !strings.Contains(d.Name(), text) {
			return nil // what goes away meanwhile is not left behind
		}
		if members, err := os.ReadFile(filepath.Join(path, "cgroup.procs")); err == nil && len(members) == 0 {
			found = append(found, "cgroup "+path)
		}
		return nil
	})
	return found
}

func homeFiles(h *lab.Host) (found []string) {
	if h.Home == "" {
		return nil
	}
	_ = filepath.WalkDir(h.Home, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasSuffix(path, ".cache/gorun") {
			return fs.SkipDir
		}
		if err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return nil
	})
	return found
}

// listeners are the listening TCP sockets in the network that pid is in.
func listeners(pid int) (found []string) {
	for _, family := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, family))
		for line := range bytes.Lines(text) {
			if f := strings.Fields(string(line)); len(f) > 3 && f[3] == "0A" {
				found = append(found, family+" "+f[1])
			}
		}
	}
	return found
}

// describe names processes as ps would.
func describe(pids []int) string {
	var words []string
	for _, pid := range pids {
		words = append(words, fmt.Sprintf("%d %.60q", pid, command(pid)))
	}
	return strings.Join(words, ", ")
}

// command is a process's command line, with spaces between words; a zombie has none.
func command(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '}))
}
