package contain

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/gorun/gorun/internal/host/process"
)

// SignalGroup sends a signal to a process group once per program. A container's starter passes
// signals on to the program in the container, as Apptainer's does, maybe by a process 1 that passes
// them on again. All are in the group, so that a signal to the whole group would reach the program
// two or three times. Programs that get the signal so are left out. The leader must not be reaped
// meanwhile.
func SignalGroup(leader int, signal syscall.Signal) error {
	var served map[int]bool
	switch signal {
	case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGCONT: // starters cannot or need not pass them on
	default:
		// In the foreground of a terminal, starters pass nothing on: they expect that all get the
		// signal.
		if p, err := ReadProcess(leader); err == nil && p.Foreground != leader {
			served = servedByStarters(leader, signal)
		}
	}
	if len(served) == 0 {
		return syscall.Kill(-leader, signal) // at once, also to processes that it forks now
	}
	for _, p := range processes() {
		if p.Group == leader && !served[p.PID] {
			_ = p.signal(signal) // it may have ended
		}
	}
	return nil
}

// servedByStarters returns the processes below root to which their parent passes a signal on.
func servedByStarters(root int, signal syscall.Signal) map[int]bool {
	served := map[int]bool{}
	for next := []int{root}; len(next) > 0; {
		parent := next[0]
		next = next[1:]
		below := children(parent)
		next = append(next, below...)
		if len(below) == 0 || !catches(parent, signal) {
			continue
		}
		first := served[parent] && isFirst(parent)
		for _, child := range below {
			if first || enters(parent, child) {
				served[child] = true
			}
		}
	}
	return served
}

// children returns the children of a process; none if the kernel does not tell.
func children(pid int) (all []int) {
	tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)) // the process may have ended
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		for field := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// enters reports whether a child has other processes or another file system before it than its
// parent. An ordinary user cannot see those of a starter that is setuid: they are taken for this
// process's.
func enters(parent, child int) bool {
	for _, kind := range []string{"pid", "mnt"} {
		theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", child, kind))
		if err != nil {
			continue
		}
		ours, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", parent, kind))
		if err != nil {
			ours, err = os.Readlink("/proc/self/ns/" + kind)
		}
		if err == nil && ours != theirs {
			return true
		}
	}
	return false
}

// catches reports whether a process has a handler for a signal. One that ignores signals, as
// unshare does, passes none on.
func catches(pid int, signal syscall.Signal) bool { return process.Catches(statusOf(pid), int(signal)) }

// isFirst reports whether a process is process 1 of a namespace.
func isFirst(pid int) bool {
	numbers := process.Field(statusOf(pid), "NSpid:")
	return len(numbers) > 1 && numbers[len(numbers)-1] == "1"
}

// statusOf returns /proc/PID/status, or "" if the process has ended.
func statusOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return string(text)
}
