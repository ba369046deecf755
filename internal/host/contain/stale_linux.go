package contain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/host/process"
)

// Score is the oom_score_adj of ranks: when memory runs out, the kernel should kill a rank. Unlike
// an environment variable it is not copied by accident, so it also marks a process as a rank's.
const Score = 500

// KillStale kills the processes left on this host by a guard and an agent of this user that were
// killed together, and removes their groups. It returns how many processes it killed. It stops
// early when ctx ends.
//
// A group is recognised by name, owner and folder, and holds all processes of its cage. On the rung
// Tree a process is killed only if its environment names a guard that has ended, its user is the
// caller's, it has the ranks' oom_score_adj and the caller has not, and its only live ancestors are
// adoptive parents, which are older than the guard.
func (c *Cage) KillStale(ctx context.Context) (killed int) {
	namespace, err := ownNamespace()
	if err != nil {
		return 0
	}
	own := readOwn()
	for _, at := range []struct {
		rung   Rung
		folder string
	}{{GroupV2, own.folder("", false)}, {FreezerV1, own.folder("freezer", true)}, {Tree, own.folder("pids", true)}} {
		for _, group := range staleGroups(at.folder, namespace) {
			killed += endGroup(at.rung, group)
		}
	}
	if c.rung != Tree {
		return killed
	}
	for _, p := range staleProcesses(ctx, namespace) {
		p.kill()
		killed++
	}
	return killed
}

// staleGroups returns the groups in a folder that belong to dead guards of this user.
func staleGroups(folder string, namespace uint64) (groups []string) {
	if folder == "" {
		return nil
	}
	matches, _ := filepath.Glob(filepath.Join(folder, prefix+"*"))
	for _, group := range matches {
		g, err := ParseGuard(strings.TrimPrefix(filepath.Base(group), prefix))
		if err != nil || !ours(group) || !g.dead(namespace) {
			continue
		}
		if in := members(group); len(in) == 0 || len(orphans(in, g, processes())) == len(in) {
			groups = append(groups, group)
		}
	}
	return groups
}

// endGroup kills the processes of a dead guard's group and removes it.
func endGroup(rung Rung, group string) (killed int) {
	const rounds = 20
	for range rounds {
		if empty(group) {
			break
		}
		if rung == Tree { // a group of the pids controller: its processes are in the other group, too
			return 0
		}
		killed = max(killed, len(killGroup(rung, group)))
		unix.Nanosleep(&unix.Timespec{Nsec: 2e6}, nil)
	}
	remove(group)
	return killed
}

// ours reports whether a file belongs to this user.
func ours(path string) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil && stat.Uid == uint32(os.Geteuid())
}

// staleProcesses returns the processes whose environment names a dead guard.
func staleProcesses(ctx context.Context, namespace uint64) []Process {
	if score("self") == Score {
		return nil // every process in this container inherits the score, so it marks none
	}
	marked := map[Guard][]Process{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil
		}
		pid, err := strconv.Atoi(e.Name())
		if err != nil || score(e.Name()) != Score {
			continue
		}
		g, err := guardOf(pid)
		if err != nil || !g.dead(namespace) {
			continue
		}
		if p, err := ReadProcess(pid); err == nil && p.alive() {
			marked[g] = append(marked[g], p)
		}
	}
	var stale []Process
	for g, of := range marked {
		stale = append(stale, orphans(of, g, processes())...)
	}
	return stale
}

// guardOf returns the guard that a process of this user names in its environment.
func guardOf(pid int) (Guard, error) {
	p, err := process.Open(pid)
	if err != nil {
		return Guard{}, err
	}
	defer p.Close()
	environment, err := p.Environment()
	if err != nil {
		return Guard{}, err
	}
	name, _ := environment.Lookup(Variable)
	return ParseGuard(name)
}

func score(pid string) int {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "oom_score_adj"))
	n := -1
	if err == nil {
		_, _ = fmt.Sscan(string(text), &n)
	}
	return n
}

// orphans returns those processes of a dead guard whose ancestors are each either one of them or an
// adoptive parent. Adoptive parents (init and other subreapers) are ancestors of the guard, and so
// older; an agent that has lost its guard, or the shell of another job, is younger. It is pure.
func orphans(of []Process, g Guard, all map[int]Process) (found []Process) {
	started := map[int]uint64{}
	for _, p := range of {
		started[p.PID] = p.Started
	}
	isOf := func(p Process) bool {
		at, is := started[p.PID]
		return is && at == p.Started
	}
	for _, p := range of {
		above, known := all[p.Parent]
		for n := 0; n < len(of) && known && isOf(above); n++ {
			above, known = all[above.Parent]
		}
		if known && above.Started < g.started {
			found = append(found, p)
		}
	}
	return found
}
