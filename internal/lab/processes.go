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
