package launcher

import (
	"cmp"
	"context"
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
	return fmt.Sprintf("connections to %s need about %d open files, and gorun may have %d", prose.Count(e.Hosts, "host"), e.Need, e.Limit)
}

// Hint returns the command that raises the limit.
func (e *FilesError) Hint() string {
	return fmt.Sprintf("raise the limit before gorun is started: ulimit -n %d", e.Need)
}

// checkFiles checks that the limit on open files allows a job's connections.
func checkFiles(hosts int) error {
	if short := filesFor(hosts, hosts, openFiles()); short != nil {
		return short
	}
	return nil
}

// openFiles is how many files this process may have open. Go has raised the limit as far as it may.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64 // an unknown limit refuses nothing
	}
	return limit.Cur
}

// filesFor checks a limit. It counts only what a job needs for certain: its connections, and one file to open each. It
// is pure.
func filesFor(hosts, connections int, limit uint64) *FilesError {
	const own, perConnection = 24, 2
	if need := uint64(own + perConnection*connections); need > limit {
		return &FilesError{hosts, need, limit}
	}
	return nil
}

// reachable are the first of an elastic job's hosts, as many as can be connected to for up to most ranks with so many files.
// The error is that it is not all of them. It is pure.
func reachable(hosts []hostfile.Host, most int, limit uint64) ([]hostfile.Host, *FilesError) {
	needs, all := make([]int, len(hosts)), 0
	for i, h := range hosts {
		all += (h.Slots + sessionsPerConnection - 1) / sessionsPerConnection
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

// checkFiles checks that the limit on open files allows the initial connections.
func (e *Elastic) checkFiles() error {
	hosts, short := reachable(e.Hosts, e.most(), openFiles())
	slots := 0
	for _, h := range hosts {
		slots += h.Slots
	}
	if short != nil && slots < e.NP {
		return short
	}
	return nil
}

// most is how many ranks there may be.
func (e *Elastic) most() int { return cmp.Or(e.Max, math.MaxInt) }

// dialLimit bounds the connections being set up at one time.
const dialLimit = 64

// setups are the connections that are being set up.
type setups chan struct{}

func newSetups() setups { return make(setups, dialLimit) }

// do sets one up when it is its turn. It is not done if ctx ends before.
func (s setups) do(ctx context.Context, setUp func() error) error {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s }()
	return setUp()
}
