package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// Processes returns the processes of this machine whose environment holds mark
// as a whole NAME=value entry, or whose command line contains it; this process
// is not among them. It looks in /proc, from outside all hosts, so it sees what
// a host's own tools may have lost. Zombies have neither and do not count.
func Processes(mark string) []int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var pids []int
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err == nil && pid != os.Getpid() && carries(dir, mark) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func carries(proc, mark string) bool {
	cmdline, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
	args := bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '})
	if bytes.Contains(args, []byte(mark)) {
		return true
	}
	environ, _ := os.ReadFile(filepath.Join(proc, "environ"))
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if string(entry) == mark {
			return true
		}
	}
	return false
}

// Inside returns the processes that run on a host made by [Namespaces], whatever they made of
// their names, parents, sessions and environments. f0 has no processes of its own.
func (c *Cluster) Inside(host string) []int {
	init := firstChild(c.Host(host).holder)
	own, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(init), "ns/pid"))
	if err != nil || c.launch == nil {
		return nil
	}
	links, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	var pids []int
	for _, link := range links {
		if where, _ := os.Readlink(link); where != own {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link)))); err == nil && pid != init {
			pids = append(pids, pid)
		}
	}
	return pids
}
