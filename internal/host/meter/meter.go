// Package meter reads what a host and its ranks use: CPU, memory, threads, storage and networks,
// from /proc and /sys. It keeps nothing running between two readings.
package meter

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/net/wire"
)

// tick is the unit of CPU times in /proc (USER_HZ), the same on every Linux architecture that Go
// supports.
const tick = time.Second / 100

// Meter reads the numbers of one host. It is not safe for concurrent use.
type Meter struct {
	root string // "/", or a test's folder
	page int64
	of   map[identity]int // rank by process: one that lost its parent still belongs to its rank
	// others are processes of no rank, by pid, which are not read for some time: a host has
	// many.
	others   map[int]bool
	readings int
	records  map[identity]*calls
	open     func(pid int) (record, error)
}

// forgetAfter is after how many readings others are read again: a process of a rank may have the
// pid of one that ended.
const forgetAfter = 16

// identity tells a process from a later one with the same pid.
type identity struct {
	pid     int
	started uint64
}

// New returns a meter of the machine whose /proc and /sys are below root.
func New(root string) *Meter {
	return &Meter{
		root:    root,
		page:    int64(os.Getpagesize()),
		of:      map[identity]int{},
		records: map[identity]*calls{},
		open:    openRecord,
	}
}

// Close forgets the processes.
func (m *Meter) Close() {
	for p, c := range m.records {
		c.close()
		delete(m.records, p)
	}
}

// process holds fields of /proc/PID/stat.
type process struct {
	identity
	parent, session  int
	state            string
	cpu, children    uint64 // CPU ticks of the process, and of children that it waited for
	threads, rssPage int64
}

// Ranks returns the use of the ranks whose processes these are, by rank. A rank that has just ended
// is left out.
func (m *Meter) Ranks(pids map[int]int) []wire.RankUse {
	if m.readings++; m.readings%forgetAfter == 1 {
		m.others = map[int]bool{}
	}
	for _, pid := range pids {
		delete(m.others, pid)
	}
	all := m.processes()
	ranks := map[int]int{} // rank by pid
	use := map[int]*wire.RankUse{}
	for rank, pid := range pids {
		if p, runs := all[pid]; runs {
			ranks[pid] = rank
			use[rank] = &wire.RankUse{
				Rank:  rank,
				PID:   pid,
				State: p.state,
				Waits: m.line("proc", strconv.Itoa(pid), "wchan"),
			}
		}
	}
	of := make(map[identity]int, len(m.of))
	for _, p := range all {
		rank, found := m.owner(p, all, ranks)
		u := use[rank]
		if !found || u == nil {
			m.others[p.pid] = true
			continue
		}
		of[p.identity] = rank
		u.CPU += time.Duration(p.cpu+p.children) * tick
		if p.state == "Z" || p.state == "X" {
			continue
		}
		u.Processes++
		u.Threads += int(p.threads)
		u.Memory += p.rssPage * m.page
		read, written := m.storage(p.pid)
		u.Read += read
		u.Written += written
		u.Ring = m.calls(p.identity, u.Ring)
	}
	m.of = of
	m.forget()
	list := make([]wire.RankUse, 0, len(use))
	for _, u := range use {
		if u.Waits == "0" { // the thread runs, or the kernel does not tell
			u.Waits = ""
		}
		list = append(list, *u)
	}
	return list
}

// owner returns the rank to which a process belongs, by its session, which every rank leads, or by
// its parents, or as before: a child may have left the session or lost its parent.
func (m *Meter) owner(p process, all map[int]process, ranks map[int]int) (rank int, found bool) {
	if rank, found = ranks[p.session]; found {
		return rank, true
	}
	for up, steps := p, 0; up.pid > 1 && steps < 1000; steps++ {
		if rank, found = ranks[up.pid]; found {
			return rank, true
		}
		up = all[up.parent] // the zero process ends the way
	}
	rank, found = m.of[p.identity]
	return rank, found
}

func (m *Meter) processes() map[int]process {
	all := map[int]process{}
	dir, err := os.Open(filepath.Join(m.root, "proc"))
	if err != nil {
		return all
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || m.others[pid] {
			continue
		}
		if p, ok := parseStat(m.read("proc", name, "stat")); ok {
			p.pid = pid
			all[pid] = p
		}
	}
	return all
}

// parseStat parses the fields after the command's name, which is in parentheses and may contain
// anything.
func parseStat(text []byte) (p process, ok bool) {
	_, f := contain.StatFields(text)
	if len(f) < 22 || len(f[0]) != 1 || f[0][0] < 'A' || f[0][0] > 'z' {
		return p, false
	}
	n := func(i int) int64 { v, _ := strconv.ParseInt(string(f[i]), 10, 64); return v } // malformed numbers are 0
	p = process{
		state:    string(f[0]),
		parent:   int(n(1)),
		session:  int(n(3)),
		cpu:      uint64(n(11) + n(12)),
		children: uint64(n(13) + n(14)),
		threads:  n(17),
		rssPage:  n(21),
	}
	p.started = uint64(n(19))
	return p, true
}

// storage returns the bytes that a process has read from storage and written to it. The kernel
// tells only who may trace the process.
func (m *Meter) storage(pid int) (read, written int64) {
	for line := range strings.Lines(string(m.read("proc", strconv.Itoa(pid), "io"))) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		switch name {
		case "read_bytes":
			read = n
		case "write_bytes":
			written = n
		}
	}
	return read, written
}

func (m *Meter) read(names ...string) []byte {
	text, _ := os.ReadFile(filepath.Join(append([]string{m.root}, names...)...)) // the process may have ended
	return text
}

func (m *Meter) line(names ...string) string {
	text := strings.TrimSpace(string(m.read(names...)))
	return text[:min(len(text), 64)]
}
