package contain

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Score is the oom_score_adj that ranks get: when memory runs out, one of them should die. Unlike the environment
// it is the kernel's word about whose child a process is: nobody copies it by accident.
const Score = 500

// KillStale ends what a guard and an agent of this user that were killed together have left on this host, and removes their
// groups. It returns how many processes it killed. It ends early with ctx.
//
// A group is known by its name, owner and place. Where there is a group, nothing is outside of it. Else, in a cage
// that is on the last rung itself, a process is killed only if its environment names a guard that is gone, its user is
// ours, it has the ranks' oom_score_adj, which we have not, and no live process but an adoptive parent, which is older
// than the guard, is above it.
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

// staleGroups are the groups in a folder that belong to our user's dead guards.
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

// endGroup kills and removes a group of a dead guard.
func endGroup(rung Rung, group string) (killed int) {
	const rounds = 20
	for range rounds {
		if empty(group) {
			break
		}
		if rung == Tree { // of the pids controller: who is in it is in the other group, too
			return 0
		}
		killed = max(killed, len(killGroup(rung, group)))
		unix.Nanosleep(&unix.Timespec{Nsec: 2e6}, nil)
	}
	remove(group)
	return killed
}

// ours reports that a file or process belongs to our user.
func ours(path string) bool {
	var stat unix.Stat_t
	return unix.Stat(path, &stat) == nil && stat.Uid == uint32(os.Geteuid())
}

// staleProcesses are those of dead guards, by their environment.
func staleProcesses(ctx context.Context, namespace uint64) []Process {
	if score("self") == Score {
		return nil // so has whoever is in our container: it tells nothing
	}
	marked := map[Guard][]Process{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil
		}
		proc := filepath.Join("/proc", e.Name())
		environ, _ := os.ReadFile(filepath.Join(proc, "environ")) // of what is no process, or not ours, there is none
		g, err := ParseGuard(mark(environ))
		if err != nil || !g.dead(namespace) || !ours(proc) || score(e.Name()) != Score {
			continue
		}
		pid, _ := strconv.Atoi(e.Name())
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

// mark is the guard's name in an environment, or "".
func mark(environ []byte) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if name, found := bytes.CutPrefix(entry, []byte(Variable+"=")); found {
			return string(name)
		}
	}
	return ""
}

func score(pid string) int {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "oom_score_adj"))
	n := -1
	if err == nil {
		_, _ = fmt.Sscan(string(text), &n)
	}
	return n
}

// orphans are those of some processes of a dead guard that nobody answers for: who is above them is either one of them or
// has adopted them. Adoptive parents, init and other subreapers, are the guard's ancestors, and so older; an agent
// that has lost its guard, or the shell of another job, is younger. It is pure.
func orphans(of []Process, g Guard, all map[int]Process) (found []Process) {
	isOf := func(p Process) bool {
		return slices.ContainsFunc(of, func(q Process) bool { return q.PID == p.PID && q.Started == p.Started })
	}
	for _, p := range of {
		above, known := all[p.Parent]
		for range of {
			if known && isOf(above) {
				above, known = all[above.Parent]
			}
		}
		if known && above.Started < g.started {
			found = append(found, p)
		}
	}
	return found
}
