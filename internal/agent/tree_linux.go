package agent

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// process is one line of the process table. Two sightings with the same pid
// and start time are the same process; the pid alone may have been reused.
type process struct {
	pid, ppid int
	state     byte
	started   uint64 // clock ticks since boot
}

// readProcess reads /proc/PID/stat.
func readProcess(pid int) (process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	return parseStat(pid, stat)
}

// parseStat takes the fields after the command name, which is in parentheses
// and may itself hold anything.
func parseStat(pid int, stat []byte) (process, error) {
	_, rest, found := cutLast(stat, []byte(") "))
	fields := bytes.Fields(rest)
	if !found || len(fields) < 20 || len(fields[0]) != 1 || fields[0][0] < 'A' || fields[0][0] > 'z' {
		return process{}, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	ppid, err1 := strconv.Atoi(string(fields[1]))
	started, err2 := strconv.ParseUint(string(fields[19]), 10, 64)
	if err1 != nil || err2 != nil {
		return process{}, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	return process{pid: pid, ppid: ppid, state: fields[0][0], started: started}, nil
}

func cutLast(s, sep []byte) (before, after []byte, found bool) {
	if i := bytes.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, nil, false
}

// descendants returns every live process below root, zombies excluded.
func descendants(root int) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]process{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil {
			children[p.ppid] = append(children[p.ppid], p)
		}
	}
	var found []process
	for next := []int{root}; len(next) > 0; {
		parent := next[0]
		next = next[1:]
		for _, p := range children[parent] {
			next = append(next, p.pid)
			if p.state != 'Z' && p.state != 'X' {
				found = append(found, p)
			}
		}
	}
	return found
}

// kill sends SIGKILL to p, and to no other process that may have its pid by now.
func (p process) kill() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if again, err := readProcess(p.pid); err == nil && again.started == p.started {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// killTree kills every process below root once. Processes that fork meanwhile
// need another call.
func killTree(root int) (found int) {
	tree := descendants(root)
	for _, p := range tree {
		p.kill()
	}
	return len(tree)
}

// sweep kills below this process until nothing is left or limit has passed,
// calling reap so that the dead do not count. It returns how many were found last.
func sweep(limit time.Duration, reap func()) (left int) {
	self := os.Getpid()
	for deadline := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		reap()
		if childless() {
			return 0
		}
		left = killTree(self)
		if time.Now().After(deadline) {
			return left
		}
	}
}

// childless reports that this process has no child, not even a dead one. For a
// subreaper that means that nothing descends from it, without a look at the
// whole process table.
func childless() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == unix.ECHILD
}
