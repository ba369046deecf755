package probe

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/doctor"
)

const (
	busyShare = 0.5 // share of a core from which a process counts as busy
	busyWants = 0.8 // the same, of what it would use, on a host where programs compete for cores
	ticks     = 100 // ticks of CPU time per second in /proc (USER_HZ)
)

// usage is the CPU time of all processes, and of the machine, at one time.
type usage struct {
	at           time.Time
	of           map[int]int64 // CPU time in ticks by pid
	started      map[int]int64 // start time in ticks after boot by pid
	parent       map[int]int   // pid of the parent by pid
	wanted       map[int]int64 // ns for which the main thread ran or waited to run, by pid
	steal, total int64
}

// watch returns the share of CPU time that the hypervisor took, and the processes outside this job
// that use much of a core, or would. agents are the job's agents on this machine.
func watch(ctx context.Context, root fs.FS, agents []doctor.Process) (steal float64, busy []doctor.Process) {
	before := used(root)
	if !sleepUntil(ctx, before.at.Add(watched)) {
		return 0, nil
	}
	return compare(root, before, used(root), agents)
}

// compare is watch between two times.
func compare(root fs.FS, before, after usage, agents []doctor.Process) (steal float64, busy []doctor.Process) {
	if total := after.total - before.total; total > 0 {
		steal = max(float64(after.steal-before.steal)/float64(total), 0)
	}
	for pid, now := range after.of {
		was, known := before.of[pid]
		share := float64(now-was) / ticks / after.at.Sub(before.at).Seconds()
		wants := float64(after.wanted[pid]-before.wanted[pid]) / float64(after.at.Sub(before.at))
		if !known || share < busyShare && wants < busyWants || after.below(pid, agents) {
			continue
		}
		name, _, _ := strings.Cut(text(root, "proc/"+strconv.Itoa(pid)+"/comm"), "\n")
		busy = append(busy, doctor.Process{
			PID:     pid,
			Name:    clipped(name, 32),
			CPU:     share,
			Started: after.started[pid],
		})
	}
	slices.SortFunc(busy, func(a, b doctor.Process) int { return cmp.Or(cmp.Compare(b.CPU, a.CPU), a.PID-b.PID) })
	return steal, busy[:min(len(busy), doctor.MaxBusy)]
}

// used reads the CPU times of all processes so far.
func used(root fs.FS) usage {
	u := usage{
		at:      time.Now(),
		of:      map[int]int64{},
		started: map[int]int64{},
		parent:  map[int]int{},
		wanted:  map[int]int64{},
	}
	if line, _, ok := strings.Cut(text(root, "proc/stat"), "\n"); ok {
		for i, field := range strings.Fields(line)[1:] {
			n, _ := strconv.ParseInt(field, 10, 64)
			if i < 8 { // the user column includes guests
				u.total += n
			}
			if i == 7 {
				u.steal = n
			}
		}
	}
	entries, _ := fs.ReadDir(root, "proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		fields := stat(root, pid)
		if len(fields) < 20 {
			continue
		}
		u.parent[pid], _ = strconv.Atoi(fields[1])
		u.started[pid], _ = strconv.ParseInt(fields[19], 10, 64)
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		u.of[pid] = user + system
		if parts := strings.Fields(text(root, "proc/"+e.Name()+"/schedstat")); len(parts) > 2 {
			ran, _ := strconv.ParseInt(parts[0], 10, 64)
			waited, _ := strconv.ParseInt(parts[1], 10, 64)
			u.wanted[pid] = ran + waited
		}
	}
	return u
}

// stat returns the fields of a process's stat, as in proc_pid_stat(5), from its state on.
func stat(root fs.FS, pid int) []string {
	line := text(root, "proc/"+strconv.Itoa(pid)+"/stat")
	return strings.Fields(line[strings.LastIndex(line, ")")+1:])
}

// agent returns the process that has started this one.
func agent(root fs.FS) doctor.Process {
	p := doctor.Process{PID: os.Getppid()}
	if fields := stat(root, p.PID); len(fields) >= 20 {
		p.Started, _ = strconv.ParseInt(fields[19], 10, 64)
	}
	return p
}

// below reports whether a process is one of the agents or runs below one. Its start tells an agent
// from a process of another container with that number.
func (u usage) below(pid int, agents []doctor.Process) bool {
	for range u.of { // parents that were read at different times may be in a circle
		if pid <= 1 {
			return false
		}
		for _, a := range agents {
			if a.PID == pid && a.Started == u.started[pid] {
				return true
			}
		}
		pid = u.parent[pid]
	}
	return false
}
