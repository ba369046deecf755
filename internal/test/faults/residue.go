package faults

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gorun/gorun/internal/test/lab"
)

// residue lists everything that a job could leave: temporary files, cgroups, and on hosts in
// namespaces also names in shared memory, files in homes outside the agent's cache, listening
// sockets and sshd sessions. Where other programs use the same places, only what surely belongs to
// the job counts: its temporary folder is its own, and a cgroup is named after a guard, whose name
// ranks have in their environment. j is nil before there is a job.
func residue(c *lab.Cluster, j *Job) (all []string) {
	if j != nil {
		all = append(j.temporary(), j.cgroups()...)
	}
	if c == nil {
		return all
	}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		for _, pid := range lab.Children(h.PID) {
			all = append(all, fmt.Sprintf("session %d of sshd on %s: %s", pid, h.Name, describe([]int{pid})))
		}
		if namespace(h.PID, "net") == namespace(os.Getpid(), "net") {
			continue
		}
		all = append(all, homeFiles(h)...)
		all = append(all, inSharedMemory(h)...)
		all = append(all, cgroups(fmt.Sprintf("gorun-%s-*", namespace(h.PID, "pid")))...)
		for _, addr := range listeners(h.PID) {
			all = append(all, fmt.Sprintf("listener %s on %s", addr, h.Name))
		}
	}
	return all
}

// temporary returns the files in the job's TMPDIR, from its launcher and its local ranks.
func (j *Job) temporary() (found []string) {
	names, _ := os.ReadDir(j.temp())
	for _, e := range names {
		found = append(found, filepath.Join(j.temp(), e.Name()))
	}
	return found
}

// cgroups returns the cgroups of the job's guards on this machine that were seen.
func (j *Job) cgroups() (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for guard := range j.guards {
		found = append(found, cgroups("gorun-"+guard)...)
	}
	return found
}

// inSharedMemory returns the names in a host's shared memory.
func inSharedMemory(h *lab.Host) (found []string) {
	dir := fmt.Sprintf("/proc/%d/root/dev/shm", h.PID)
	names, _ := os.ReadDir(dir)
	for _, e := range names {
		found = append(found, filepath.Join(dir, e.Name()))
	}
	return found
}

// namespace returns the number of one of a process's namespaces, or "".
func namespace(pid int, kind string) string {
	link, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind))
	return strings.Trim(strings.TrimPrefix(link, kind), ":[]")
}

// cgroups returns the cgroups whose name matches a pattern.
func cgroups(pattern string) (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // what goes away meanwhile is not left behind
		}
		if match, _ := filepath.Match(pattern, d.Name()); match {
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

// listeners returns the listening TCP sockets in the network of pid.
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

// describe returns processes as ps prints them.
func describe(pids []int) string {
	var words []string
	for _, pid := range pids {
		words = append(words, fmt.Sprintf("%d %.60q", pid, command(pid)))
	}
	return strings.Join(words, ", ")
}

// command returns a process's command line with spaces between words; a zombie has none.
func command(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(bytes.ReplaceAll(bytes.TrimRight(line, "\x00"), []byte{0}, []byte{' '}))
}
