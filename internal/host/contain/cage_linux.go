package contain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Rung is a way to contain processes. A lower value contains better.
type Rung int

// The rungs, from the best to the one that always works.
const (
	GroupV2   Rung = iota // a cgroup v2, killed as one by the kernel
	FreezerV1             // a freezer cgroup of v1: frozen, killed one by one, thawed
	Tree                  // what descends from the agent and its guard, found in /proc
)

// prefix begins the name of every cgroup that gorun makes; the guard's name follows.
const prefix = "gorun-"

// Cage holds the processes of the ranks of one agent.
type Cage struct {
	rung  Rung
	group string   // folder of the ranks' cgroup, or "" on the rung Tree
	pids  string   // folder of the cgroup that bounds the number of processes, or ""
	dir   *os.File // the open group, in which processes are started
}

// Make makes the best cage that this host allows, but none better than best, and names it after the
// guard.
func Make(g Guard, best Rung) *Cage {
	return place(g, func(folder string, rung Rung) (string, bool) {
		if rung < best {
			return "", false
		}
		group := filepath.Join(folder, prefix+g.String())
		if os.Mkdir(group, 0o755) != nil {
			return "", false
		}
		if !usable(folder, group, rung) {
			_ = os.Remove(group)
			return "", false
		}
		return group, true
	})
}

// Open returns the cage that the guard has made.
func Open(g Guard) *Cage {
	return place(g, func(folder string, _ Rung) (string, bool) {
		group := filepath.Join(folder, prefix+g.String())
		_, err := os.Stat(group)
		return group, err == nil
	})
}

// place tries the kinds of cages, the best one first. try finds or makes a group in a folder.
func place(g Guard, try func(folder string, rung Rung) (group string, ok bool)) *Cage {
	own := readOwn()
	for _, at := range []struct {
		rung   Rung
		folder string
	}{{GroupV2, own.folder("", false)}, {FreezerV1, own.folder("freezer", true)}} {
		if at.folder == "" {
			continue
		}
		group, ok := try(at.folder, at.rung)
		if !ok {
			continue
		}
		c := &Cage{rung: at.rung, group: group}
		c.findPids(own, try)
		if at.rung == GroupV2 {
			c.dir, _ = os.Open(group) // if this fails, starting a rank reports why
		}
		return c
	}
	return &Cage{rung: Tree}
}

// findPids finds or makes the group that bounds the number of processes.
func (c *Cage) findPids(own ownGroups, try func(string, Rung) (string, bool)) {
	if _, err := os.Stat(filepath.Join(c.group, "pids.max")); err == nil {
		c.pids = c.group
		return
	}
	folder := own.folder("pids", true)
	if folder == "" {
		return
	}
	if group, ok := try(folder, FreezerV1); ok {
		c.pids = group
	}
}

// usable reports whether processes can be started and killed in the group. folder is this process's
// own group, which contains it.
func usable(folder, group string, rung Rung) bool {
	may := func(folder, name string) bool { return unix.Access(filepath.Join(folder, name), unix.W_OK) == nil }
	if rung != GroupV2 {
		return may(folder, "tasks") && may(group, "tasks")
	}
	kind, _ := os.ReadFile(filepath.Join(group, "cgroup.type"))
	// Without arguments clone3 fails with EINVAL if it exists, and with ENOSYS or EPERM in old
	// sandboxes.
	_, _, errno := unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
	return string(kind) == "domain\n" && may(group, "cgroup.kill") && may(group, "cgroup.procs") &&
		may(folder, "cgroup.procs") && errno == unix.EINVAL
}

// String names the rung for the user. It omits the folder, which differs from host to host.
func (c *Cage) String() string {
	switch c.rung {
	case GroupV2:
		return "cgroup v2"
	case FreezerV1:
		return "cgroup v1 freezer"
	}
	return "their process tree (no cgroup of their own can be made)"
}

// Limit bounds the number of processes and threads in the cage, if a pids controller is available.
func (c *Cage) Limit(n int) {
	if c.pids != "" {
		_ = os.WriteFile(filepath.Join(c.pids, "pids.max"), []byte(strconv.Itoa(n)), 0)
	}
}

// Move moves the cage's processes into the group that bounds their number, if the two are in
// different trees. The first move is slow in the kernel, so it happens after the ranks have
// started.
func (c *Cage) Move() {
	const rounds = 1000 // bounds the work if processes keep forking
	if c.rung != GroupV2 || c.pids == "" || c.pids == c.group {
		return
	}
	for range rounds {
		bounded := map[int]bool{}
		for _, pid := range pidsOf(c.pids) {
			bounded[pid] = true
		}
		moved := 0
		for _, pid := range pidsOf(c.group) {
			if !bounded[pid] && os.WriteFile(filepath.Join(c.pids, "cgroup.procs"), []byte(strconv.Itoa(pid)),
				0) == nil {
				moved++
			}
		}
		if moved == 0 {
			return
		}
	}
}

// Enter moves the calling thread, which the caller has locked, so that the processes it starts are
// born in the cage. It must call Leave before they are killed.
func (c *Cage) Enter() error { return c.move(func(group string) string { return group }) }

// Leave undoes Enter.
func (c *Cage) Leave() error { return c.move(filepath.Dir) }

// move moves the calling thread in the trees of cgroup v1, where each thread has its own
// membership.
func (c *Cage) move(to func(group string) string) error {
	if c.rung != FreezerV1 {
		return nil
	}
	tid := []byte(strconv.Itoa(unix.Gettid()))
	if c.pids != "" && c.pids != c.group {
		_ = os.WriteFile(filepath.Join(to(c.pids), "tasks"), tid, 0) // the limit is optional
	}
	if err := os.WriteFile(filepath.Join(to(c.group), "tasks"), tid, 0); err != nil {
		return fmt.Errorf("move a thread to cgroup %s: %w", to(c.group), err)
	}
	return nil
}

// Take moves a process into the cage, in which its children are born.
func (c *Cage) Take(pid int) error {
	file := "cgroup.procs"
	switch c.rung {
	case Tree:
		return nil
	case FreezerV1:
		file = "tasks"
		if c.pids != "" && c.pids != c.group {
			_ = os.WriteFile(filepath.Join(c.pids, file), []byte(strconv.Itoa(pid)), 0) // the limit is optional
		}
	}
	if err := os.WriteFile(filepath.Join(c.group, file), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("move a process to cgroup %s: %w", c.group, err)
	}
	return nil
}

// Attach sets attr so that a process started with it is born in the cage.
func (c *Cage) Attach(attr *syscall.SysProcAttr) {
	if c.dir != nil {
		attr.UseCgroupFD = true
		attr.CgroupFD = int(c.dir.Fd())
	}
}

// Kill sends SIGKILL once to every process in the cage and every descendant of this process, and
// returns them. Processes that fork meanwhile need another call.
func (c *Cage) Kill() []Process {
	found := map[int]Process{}
	for _, p := range killGroup(c.rung, c.group) {
		found[p.PID] = p
	}
	for _, p := range killTree(os.Getpid()) {
		found[p.PID] = p
	}
	var all []Process
	for _, p := range found {
		all = append(all, p)
	}
	return all
}

// Sweep kills until nothing is left or limit has passed. It calls reap so that zombies do not
// count, and returns the processes that SIGKILL did not end.
func (c *Cage) Sweep(limit time.Duration, reap func()) (left []Process) {
	for deadline := time.Now().Add(limit); ; time.Sleep(2 * time.Millisecond) {
		reap()
		if childless() && empty(c.group) {
			return nil
		}
		left = c.Kill()
		if time.Now().After(deadline) {
			return left
		}
	}
}

// Remove removes the cage's groups. A group that is not empty stays until the next gorun sweeps it.
func (c *Cage) Remove() {
	if c.dir != nil {
		c.dir.Close()
		c.dir = nil
	}
	remove(c.group)
	if c.pids != c.group {
		remove(c.pids)
	}
}

// killGroup sends SIGKILL once to the processes in a group and the groups below it, and returns
// them.
func killGroup(rung Rung, group string) (found []Process) {
	switch {
	case group == "":
		return nil
	case rung == GroupV2:
		_ = os.WriteFile(filepath.Join(group, "cgroup.kill"), []byte("1"), 0)
		return members(group)
	}
	freeze(group)
	defer thaw(group)
	found = members(group)
	for _, p := range found {
		p.kill()
	}
	return found
}

// freezeTime bounds the wait for a group to freeze. A process in uninterruptible sleep cannot
// freeze; the others are killed regardless.
const freezeTime = 100 * time.Millisecond

func freeze(group string) {
	state := filepath.Join(group, "freezer.state")
	_ = os.WriteFile(state, []byte("FROZEN"), 0)
	for deadline := time.Now().Add(freezeTime); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if text, err := os.ReadFile(state); err != nil || string(text) == "FROZEN\n" {
			return
		}
	}
}

func thaw(group string) {
	walk(group, func(folder string) { _ = os.WriteFile(filepath.Join(folder, "freezer.state"), []byte("THAWED"), 0) })
}

// members returns the live processes in a group and the groups below it.
func members(group string) (all []Process) {
	for _, pid := range pidsOf(group) {
		if p, err := ReadProcess(pid); err == nil && p.alive() && p.PID != os.Getpid() {
			all = append(all, p)
		}
	}
	return all
}

func pidsOf(group string) (pids []int) {
	walk(group, func(folder string) {
		text, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		pids = append(pids, parsePids(text)...)
	})
	return pids
}

// empty reports whether the group and the groups below it have no process.
func empty(group string) bool { return group == "" || len(pidsOf(group)) == 0 }

// remove removes a group and the groups below it.
func remove(group string) {
	const tries = 20
	if group == "" {
		return
	}
	walk(group, func(folder string) {
		for range tries {
			if err := unix.Rmdir(folder); !errors.Is(err, unix.EBUSY) {
				return
			}
			time.Sleep(time.Millisecond) // the last process may have ended only now
		}
	})
}

// walk calls do for a group's folder and all folders below it, children first.
func walk(group string, do func(folder string)) {
	entries, err := os.ReadDir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			walk(filepath.Join(group, e.Name()), do)
		}
	}
	do(group)
}
