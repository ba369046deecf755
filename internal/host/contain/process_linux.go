package contain

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Process is an entry of the process table. Pid and start time together
// identify a process; the pid alone may have been reused.
type Process struct {
	PID, Parent int
	Group       int    // process group
	Foreground  int    // process group in the foreground of its terminal; below 1: none
	State       byte   // as in /proc/PID/stat; D is uninterruptible sleep
	Started     uint64 // clock ticks since boot
	Name        string
}

// ReadProcess reads /proc/PID/stat.
func ReadProcess(pid int) (Process, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	return parseStat(pid, stat)
}

func parseStat(pid int, stat []byte) (Process, error) {
	name, fields := StatFields(stat)
	// qemu-user says that the state of its own process is 0.
	if len(fields) < 20 || len(fields[0]) != 1 || fields[0][0] < '0' || fields[0][0] > 'z' {
		return Process{}, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	ppid, err1 := strconv.Atoi(string(fields[1]))
	started, err2 := strconv.ParseUint(string(fields[19]), 10, 64)
	group, err3 := strconv.Atoi(string(fields[2]))
	foreground, err4 := strconv.Atoi(string(fields[5]))
	if errors.Join(err1, err2, err3, err4) != nil {
		return Process{}, fmt.Errorf("malformed /proc/%d/stat", pid)
	}
	return Process{
		PID:        pid,
		Parent:     ppid,
		Group:      group,
		Foreground: foreground,
		State:      fields[0][0],
		Started:    started,
		Name:       string(name),
	}, nil
}

// StatFields splits the text of /proc/PID/stat into the command name, which is in parentheses and
// may contain anything, and the fields after it, the state first. There are none if the name has no
// end.
func StatFields(stat []byte) (name []byte, fields [][]byte) {
	end := bytes.LastIndex(stat, []byte(") "))
	if end < 0 {
		return nil, nil
	}
	_, name, _ = bytes.Cut(stat[:end], []byte("("))
	return name, bytes.Fields(stat[end+2:])
}

// processes returns the whole process table by pid.
func processes() map[int]Process {
	all := map[int]Process{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return all
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if p, err := ReadProcess(pid); err == nil {
			all[pid] = p
		}
	}
	return all
}

// Descendants returns every live process below root, zombies excluded.
func Descendants(root int) []Process {
	children := map[int][]Process{}
	for _, p := range processes() {
		children[p.Parent] = append(children[p.Parent], p)
	}
	var found []Process
	for next := []int{root}; len(next) > 0; {
		parent := next[0]
		next = next[1:]
		for _, p := range children[parent] {
			next = append(next, p.PID)
			if p.alive() {
				found = append(found, p)
			}
		}
	}
	return found
}

// Ending reports whether a process has ended or all of its threads are exiting. Its connections are
// closed then, so peers may notice the end before the parent can wait for it.
func Ending(pid int) bool {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, task := range tasks {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, task.Name()))
		if err == nil && !exiting(stat) {
			return false
		}
	}
	return true
}

// exiting reports whether a thread's stat has the flag PF_EXITING.
func exiting(stat []byte) bool {
	const beingShutDown = 0x4 // PF_EXITING of include/linux/sched.h
	_, fields := StatFields(stat)
	if len(fields) < 7 {
		return false
	}
	flags, err := strconv.ParseUint(string(fields[6]), 10, 64)
	return err == nil && flags&beingShutDown != 0
}

func (p Process) alive() bool { return p.State != 'Z' && p.State != 'X' }

// kill sends SIGKILL to p, as signal does.
func (p Process) kill() { _ = p.signal(unix.SIGKILL) }

// signal sends a signal to p and to no later process with the same pid. Without pidfds (old kernels
// and sandboxes) a short race remains between the check and the signal.
func (p Process) signal(signal unix.Signal) error {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err == nil {
		defer unix.Close(fd)
	} else if !unknownCall(err) {
		return err
	}
	again, gone := ReadProcess(p.PID)
	switch {
	case gone != nil:
		return gone
	case again.Started != p.Started:
		return unix.ESRCH
	case err == nil:
		err = unix.PidfdSendSignal(fd, signal, nil, 0)
	}
	if unknownCall(err) {
		err = unix.Kill(p.PID, signal)
	}
	return err
}

// unknownCall reports whether err means that the kernel or a sandbox does not have a system call.
func unknownCall(err error) bool { return err == unix.ENOSYS || err == unix.EPERM }

// killTree sends SIGKILL once to every process below root and returns them. Processes that fork
// meanwhile need another call.
func killTree(root int) []Process {
	tree := Descendants(root)
	for _, p := range tree {
		p.kill()
	}
	return tree
}

// childless reports whether this process has no child, not even a zombie. A
// childless subreaper has no descendants, which spares a read of the whole
// process table.
// ReapOrphans collects the ended children of this process that own does not name.
func ReapOrphans(own func(pid int) bool) {
	for _, pid := range children(os.Getpid()) {
		if p, err := ReadProcess(pid); err == nil && p.State == 'Z' && !own(pid) {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

func childless() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == unix.ECHILD
}
