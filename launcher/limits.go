package launcher

import (
	"fmt"
	"syscall"
)

// FilesError says that the launcher may not open as many files as its connections need.
type FilesError struct {
	Hosts       int
	Need, Limit uint64
}

func (e *FilesError) Error() string {
	return fmt.Sprintf("connections to %s need about %d open files, and gorun may have %d", count(e.Hosts, "host"), e.Need, e.Limit)
}

// Hint says what to do about it.
func (e *FilesError) Hint() string {
	return fmt.Sprintf("raise the limit before gorun is started: ulimit -n %d", e.Need)
}

// checkFiles looks whether this process may have the connections that a job needs. Go has raised the limit as far as it may.
func checkFiles(hosts int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return nil // nothing is refused for what is not known
	}
	return filesFor(hosts, limit.Cur)
}

// filesFor is checkFiles for a limit. What is needed is what a job cannot do without: a connection to each host
// and a file to make it with. It is pure.
func filesFor(hosts int, limit uint64) error {
	const own, perHost = 24, 2
	if need := uint64(own + perHost*hosts); need > limit {
		return &FilesError{hosts, need, limit}
	}
	return nil
}
