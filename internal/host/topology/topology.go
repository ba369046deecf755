// Package topology reads the hardware threads, cores, caches, NUMA nodes and sockets of a host and
// which of them this process may use, and binds ranks to them.
//
// Parsing is pure: callers pass the kernel's file systems. Only [Here], [Affinity] and
// [SetAffinity] read or change this machine.
package topology

import (
	"cmp"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// CPU is one hardware thread and its location.
type CPU struct {
	ID     int // the kernel's number
	Core   int // from 0, counted over all sockets
	L2, L3 int // the caches of these levels, by the lowest thread that shares them
	Node   int // the kernel's number of the NUMA node
	Socket int // from 0
}

// Machine is the hardware threads of a host, sorted by socket, NUMA node, level 3 cache and core.
type Machine []CPU

// Read reads a machine from sys, normally /sys. If sys has no core numbers, every hardware thread
// counts as a core, and all are in one socket and NUMA node. Where sys does not show a cache, a
// core counts as one of level 2, and a socket as one of level 3.
func Read(sys fs.FS) (Machine, error) {
	const folder = "devices/system/cpu"
	text, err := fs.ReadFile(sys, folder+"/online")
	if err != nil {
		return nil, err
	}
	online, err := ParseSet(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s/online: %w", folder, err)
	}
	nodes := readNodes(sys)
	m := make(Machine, len(online))
	for i, id := range online {
		dir := fmt.Sprintf("%s/cpu%d/topology", folder, id)
		m[i] = CPU{
			ID:     id,
			Core:   firstThread(sys, dir, id),
			Node:   nodes[id],
			Socket: readNumber(sys, dir+"/physical_package_id"),
		}
	}
	m.readCaches(sys)
	m.number()
	return m, nil
}

// number sorts the threads and renumbers cores and sockets from 0. The kernel's numbers have gaps,
// and its core numbers start again in every socket.
func (m Machine) number() {
	slices.SortFunc(m, func(a, b CPU) int {
		return cmp.Or(cmp.Compare(a.Socket, b.Socket), cmp.Compare(a.Node, b.Node), cmp.Compare(a.L3, b.L3),
			cmp.Compare(a.Core, b.Core), cmp.Compare(a.ID, b.ID))
	})
	var last CPU
	for i, c := range m {
		if i > 0 {
			m[i].Core = m[i-1].Core
			m[i].Socket = m[i-1].Socket
			if c.Core != last.Core {
				m[i].Core++
			}
			if c.Socket != last.Socket {
				m[i].Socket++
			}
		} else {
			m[i].Core = 0
			m[i].Socket = 0
		}
		last = c
	}
}

// firstThread returns the lowest thread number of a thread's core, which identifies the core.
func firstThread(sys fs.FS, dir string, id int) int {
	for _, name := range []string{"core_cpus_list", "thread_siblings_list"} { // the second before Linux 5.3
		text, err := fs.ReadFile(sys, path.Join(dir, name))
		if err != nil {
			continue
		}
		if siblings, err := ParseSet(string(text)); err == nil && len(siblings) > 0 {
			return siblings[0]
		}
	}
	return id
}

// readNodes returns the NUMA node of each hardware thread.
func readNodes(sys fs.FS) map[int]int {
	nodes := map[int]int{}
	files, _ := fs.Glob(sys, "devices/system/node/node[0-9]*/cpulist")
	for _, file := range files {
		number, err := strconv.Atoi(strings.TrimPrefix(path.Base(path.Dir(file)), "node"))
		text, readErr := fs.ReadFile(sys, file)
		if err != nil || readErr != nil {
			continue
		}
		cpus, _ := ParseSet(string(text)) // empty where a node has memory only
		for _, id := range cpus {
			nodes[id] = number
		}
	}
	return nodes
}

// readNumber returns the number in a file, or 0 if the file is missing or has -1 for unknown.
func readNumber(sys fs.FS, name string) int {
	text, _ := fs.ReadFile(sys, name)
	n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return max(n, 0)
}

// Flat returns a machine of which only the hardware threads are known.
func Flat(cpus Set) Machine {
	m := make(Machine, len(cpus))
	for i, id := range cpus {
		m[i] = CPU{
			ID:   id,
			Core: i,
			L2:   id,
			L3:   cpus[0],
		}
	}
	return m
}

// Only returns the part of m that contains cpus. Cores and sockets keep their numbers.
func (m Machine) Only(cpus Set) Machine {
	return slices.DeleteFunc(slices.Clone(m), func(c CPU) bool { return !cpus.Has(c.ID) })
}

// IDs returns the hardware threads of m.
func (m Machine) IDs() Set { return m.ids() }

// CoresOf counts the cores that cpus are in.
func (m Machine) CoresOf(cpus Set) int { return len(m.Only(cpus).split(Core)) }

// Room returns how many ranks can compute at the same time, one per core. quota is the allowed CPU
// time in CPUs, or 0 for no limit. The result is at least 1.
func (m Machine) Room(quota float64) int { return room(len(m.split(Core)), quota) }

func room(cores int, quota float64) int {
	if quota > 0 {
		cores = min(cores, int(quota))
	}
	return max(cores, 1)
}

// countCores returns how many cores the threads cpus belong to. If no core has several threads it
// reads nothing more.
func countCores(sys fs.FS, cpus Set) int {
	if active, err := fs.ReadFile(sys, "devices/system/cpu/smt/active"); err == nil &&
		strings.TrimSpace(string(active)) == "0" {
		return len(cpus)
	}
	cores := map[int]bool{}
	for _, id := range cpus {
		cores[firstThread(sys, fmt.Sprintf("devices/system/cpu/cpu%d/topology", id), id)] = true
	}
	return len(cores)
}

// Describe names the location of cpus, such as "cores 2-3 of socket 0".
func (m Machine) Describe(cpus Set) string {
	part := m.Only(cpus)
	var cores, sockets Set
	for _, c := range part {
		cores = append(cores, c.Core)
		sockets = append(sockets, c.Socket)
	}
	cores = cores.sorted()
	sockets = sockets.sorted()
	threads := ""
	whole := slices.DeleteFunc(slices.Clone(m), func(c CPU) bool { return !cores.Has(c.Core) })
	switch {
	case len(part) < len(whole) && len(part) == 1:
		threads = "a hardware thread of "
	case len(part) < len(whole):
		threads = strconv.Itoa(len(part)) + " hardware threads of "
	}
	return fmt.Sprintf("%s%s of %s", threads, cores.named("core"), sockets.named("socket"))
}
