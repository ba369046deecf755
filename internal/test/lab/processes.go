package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Processes returns the processes of this machine whose environment holds mark as a whole
// NAME=value entry, or whose command line contains it, except this process. It reads /proc from
// outside all hosts, so it also finds processes that a host's own tools miss. Zombies have neither
// and do not count.
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

// Inside returns the processes in the networks of the named hosts made by [Namespaces], or of all
// hosts, f0 included. Changed names, parents, sessions or environments do not hide them.
func (c *Cluster) Inside(hosts ...string) []int {
	if c.launch == nil {
		return nil
	}
	if len(hosts) == 0 {
		hosts = append(hosts, c.launch.Name)
		for _, h := range c.Hosts {
			hosts = append(hosts, h.Name)
		}
	}
	nets := map[string]bool{}
	for _, name := range hosts {
		net, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(c.Host(name).holder), "ns/net"))
		nets[net] = err == nil
	}
	entries, _ := os.ReadDir("/proc")
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == c.launch.holder {
			continue
		}
		net, err := os.Readlink(filepath.Join("/proc", e.Name(), "ns/net"))
		// f0 has no init: its orphans get other parents, and its keeper's children are the
		// keeper's.
		if err == nil && nets[net] && Parent(pid) != c.launch.holder {
			pids = append(pids, pid)
		}
	}
	return pids
}

// NoneLeft fails the test if [Processes] with the mark do not end within 5 s, and kills them.
func NoneLeft(t testing.TB, mark string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := Processes(mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			for _, pid := range left {
				line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
				t.Errorf("left behind: %d %q", pid, bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			return
		}
	}
}
