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

// residue lists what a job could leave behind: names in shared memory, temporary directories, cgroups,
// files in homes other than the agent's cache, and on hosts of their own listening
// sockets and sessions of sshd.
func residue(c *lab.Cluster) []string {
	var all []string
	for _, dir := range []string{"/dev/shm", "/tmp", "/var/tmp"} {
		names, _ := os.ReadDir(dir)
		for _, e := range names {
			if name := e.Name(); strings.Contains(name, "gorun") && !strings.HasPrefix(name, "gorun-lab-") && !strings.HasPrefix(name, "gorun-e2e-") {
				all = append(all, filepath.Join(dir, name))
			}
		}
	}
	all = append(all, cgroups()...)
	if c == nil {
		return all
	}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		all = append(all, homeFiles(h)...)
		for _, pid := range lab.Children(h.PID) {
			all = append(all, fmt.Sprintf("session %d of sshd on %s: %s", pid, h.Name, describe([]int{pid})))
		}
		for _, addr := range listeners(h.PID) {
			all = append(all, fmt.Sprintf("listener %s on %s", addr, h.Name))
		}
	}
	return all
}

// cgroups are those that carry gorun's name.
func cgroups() (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), "gorun") {
			found = append(found, "cgroup "+path)
		}
		return nil // what goes away meanwhile is not left behind
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
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		text := string(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '}))
		words = append(words, fmt.Sprintf("%d %.60q", pid, text))
	}
	return strings.Join(words, ", ")
}
