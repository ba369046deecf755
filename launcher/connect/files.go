package connect

import (
	"fmt"
	"math"
	"syscall"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/prose"
)

// FilesError reports that the limit on open files is too low for the job's connections.
type FilesError struct {
	Hosts       int
	Need, Limit uint64
}

func (e *FilesError) Error() string {
	return fmt.Sprintf("connections to %s need about %d open files, and gorun may have %d",
		prose.Count(e.Hosts, "host"), e.Need, e.Limit)
}

// Hint returns the command that raises the limit.
func (e *FilesError) Hint() string {
	return fmt.Sprintf("raise the limit before gorun is started: ulimit -n %d", e.Need)
}

// CheckFiles checks that this process may open the files for connections to so many hosts. The
// error is a *[FilesError].
func CheckFiles(hosts int) error {
	if short := filesFor(hosts, hosts, OpenFiles()); short != nil {
		return short
	}
	return nil
}

// OpenFiles returns how many files this process may have open. The Go runtime has already raised
// the limit to the hard one.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64 // an unknown limit refuses nothing
	}
	return limit.Cur
}

// filesFor checks a limit. It counts only what a job needs for certain: its connections, and one
// file for each of those that are being set up at a time. It is pure.
func filesFor(hosts, connections int, limit uint64) *FilesError {
	const own = 24
	if need := uint64(own + connections + min(connections, Limit)); need > limit {
		return &FilesError{hosts, need, limit}
	}
	return nil
}

// Reachable returns the first hosts of an elastic job, as many as limit open files allow to connect
// to for up to most ranks. The error, or nil, says that these are not all. It is pure.
func Reachable(hosts []hostfile.Host, most int, limit uint64) ([]hostfile.Host, *FilesError) {
	needs := make([]int, len(hosts))
	all := 0
	for i, h := range hosts {
		all += (h.Slots + SessionsPerConnection - 1) / SessionsPerConnection
		needs[i] = all
	}
	short := filesFor(len(hosts), min(all, most), limit)
	if short == nil {
		return hosts, nil
	}
	n := 0
	for n < len(hosts) && filesFor(n, needs[n], limit) == nil {
		n++
	}
	return hosts[:n], short
}
