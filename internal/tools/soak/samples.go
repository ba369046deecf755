package main

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/net/sockets"
	"github.com/gorun/gorun/internal/test/lab"
)

// sample counts everything after some jobs.
type sample struct {
	jobs   int
	counts map[string]float64
}

// The names of a sample's counts. Only memory and TIME_WAIT may exceed their first value.
const (
	tmpFiles  = "files in /tmp"
	shmFiles  = "files in /dev/shm"
	groups    = "cgroups"
	sshdFiles = "sshd's open files"
	sessions  = "sshd's sessions"
	listeners = "listening sockets"
	sshdKiB   = "sshd's KiB"
	timeWait  = "TIME_WAIT"

	// On kept hosts.
	keptProcesses = "keeping processes"
	keptFiles     = "their open files"
	keptKiB       = "their KiB"
)

// heapKiB is what a process of Go may grow by before its garbage collector begins.
const heapKiB = 4 << 10

func counted() []string {
	return []string{tmpFiles, shmFiles, groups, sshdFiles, sessions, listeners, sshdKiB, timeWait, keptProcesses,
		keptFiles, keptKiB}
}

// take counts everything. tmp is the jobs' temporary directory.
func take(jobs int, c *lab.Cluster, tmp string) sample {
	s := sample{jobs, map[string]float64{
		tmpFiles: float64(named("/tmp", "gorun") + named("/var/tmp", "gorun") + named(tmp, "")),
		shmFiles: float64(named("/dev/shm", "gorun")),
		groups:   float64(cgroups()),
	}}
	for i := range c.Hosts {
		h := &c.Hosts[i]
		s.counts[sshdFiles] += float64(named(fmt.Sprintf("/proc/%d/fd", h.PID), ""))
		s.counts[sessions] += float64(len(lab.Children(h.PID)))
		s.counts[sshdKiB] += float64(resident(h.PID))
	}
	listening, waiting := countSockets(c)
	s.counts[listeners] = float64(listening)
	s.counts[timeWait] = float64(waiting)
	return s
}

// named counts a directory's entries whose names contain word, without those of labs and tests,
// which others may run.
func named(dir, word string) (n int) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if strings.Contains(e.Name(), word) && !strings.HasPrefix(e.Name(), "gorun-lab-") &&
			!strings.HasPrefix(e.Name(), "gorun-e2e-") {
			n++
		}
	}
	return n
}

func cgroups() (n int) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.Contains(d.Name(), "gorun") {
			n++
		}
		return nil // what goes away meanwhile is not there
	})
	return n
}

// resident returns a process's memory in KiB.
func resident(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	var size, pages int
	fmt.Sscan(string(text), &size, &pages)
	return pages * os.Getpagesize() >> 10
}

// countSockets counts the lab addresses' sockets that listen or are in TIME-WAIT.
func countSockets(c *lab.Cluster) (listening, waiting int) {
	hosts := map[netip.AddrPort]bool{}
	for _, h := range c.Hosts {
		hosts[netip.AddrPortFrom(netip.MustParseAddr(h.Addr), uint16(h.Port))] = true
	}
	text, _ := os.ReadFile("/proc/net/tcp")
	for s := range sockets.Table(string(text)) {
		switch {
		case s.State == sockets.Listen && hosts[s.Local]:
			listening++
		case s.State == sockets.TimeWait && (hosts[s.Local] || hosts[s.Remote]):
			waiting++
		}
	}
	return listening, waiting
}

// slope returns the growth per job, by least squares.
func slope(samples []sample, name string) float64 {
	var n, x, y, xx, xy float64
	for _, s := range samples {
		at := float64(s.jobs)
		count := s.counts[name]
		n++
		x += at
		y += count
		xx += at * at
		xy += at * count
	}
	if d := n*xx - x*x; d != 0 {
		return (n*xy - x*y) / d
	}
	return 0
}

// growth returns what exceeds its first value at the end. Processes need more memory at first: it
// counts as growth if it rises by a tenth of a KiB per job in the second half, and by more than
// sshd's 256 KiB or heapKiB for each process of gorun in all.
func growth(samples []sample) (grown []string) {
	first := samples[0]
	last := samples[len(samples)-1]
	for _, name := range counted() {
		more := last.counts[name] - first.counts[name]
		switch name {
		case timeWait: // the kernel's, for a minute each
		case sshdKiB, keptKiB:
			allowed := 256.0
			if name == keptKiB {
				allowed = last.counts[keptProcesses] * heapKiB
			}
			if later := samples[len(samples)/2:]; slope(later, name) > 0.1 && more > allowed {
				grown = append(grown, name)
			}
		default:
			if more > 0 {
				grown = append(grown, name)
			}
		}
	}
	return grown
}

// table returns the first, a middle and the last sample, and the slopes.
func table(samples []sample) string {
	var b strings.Builder
	three := []sample{samples[0], samples[len(samples)/2], samples[len(samples)-1]}
	three = slices.CompactFunc(three, func(x, y sample) bool { return x.jobs == y.jobs })
	fmt.Fprintf(&b, "%-20s", "after jobs")
	for _, s := range three {
		fmt.Fprintf(&b, "%10d", s.jobs)
	}
	fmt.Fprintf(&b, "%14s\n", "each job adds")
	for _, name := range counted() {
		if _, is := samples[0].counts[name]; !is {
			continue
		}
		fmt.Fprintf(&b, "%-20s", name)
		for _, s := range three {
			fmt.Fprintf(&b, "%10.0f", s.counts[name])
		}
		fmt.Fprintf(&b, "%14.4f\n", slope(samples, name))
	}
	return b.String()
}
