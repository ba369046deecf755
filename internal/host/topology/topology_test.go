package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// tree is a file system out of lines of a path and a text.
func tree(lines string) fs.FS {
	files := fstest.MapFS{}
	for line := range strings.Lines(lines) {
		if name, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " "); ok {
			files[name] = &fstest.MapFile{Data: []byte(text + "\n")}
		}
	}
	return files
}

// box is a machine of sockets, NUMA nodes in each with an L3 cache, cores in each, and threads in
// each, numbered as most servers are: first one thread of every core, then the others.
func box(sockets, nodes, cores, threads int) Machine {
	var m Machine
	all := sockets * nodes * cores
	for core := range all {
		for thread := range threads {
			m = append(m, CPU{
				ID:     core + thread*all,
				Core:   core,
				L2:     core,
				L3:     core / cores,
				Node:   core / cores,
				Socket: core / cores / nodes,
			})
		}
	}
	return m
}

func TestCountCores(t *testing.T) {
	for _, tc := range []struct {
		tree string
		cpus Set
		want int
	}{
		{"", Set{0, 1, 5}, 3},
		{"devices/system/cpu/smt/active 0\ndevices/system/cpu/cpu1/topology/core_cpus_list 0-1", Set{0, 1}, 2},
		{"devices/system/cpu/smt/active 1\ndevices/system/cpu/cpu1/topology/core_cpus_list 0-1", Set{0, 1, 2}, 2},
		{"devices/system/cpu/cpu7/topology/thread_siblings_list " +
			"3,7\ndevices/system/cpu/cpu3/topology/thread_siblings_list 3,7", Set{3, 4, 7}, 2},
	} {
		got := countCores(tree(tc.tree), tc.cpus)
		check.That(t, got == tc.want, "%q, %v: %d cores, want %d", tc.tree, tc.cpus, got, tc.want)
	}
}

func TestRead(t *testing.T) {
	for name, want := range map[string]string{
		"vm-2":        "0:c0n0s0 1:c1n0s0",
		"interleaved": "0:c0n0s0 4:c0n0s0 2:c1n0s0 6:c1n0s0 1:c2n1s1 5:c2n1s1 3:c3n1s1",
		"bare":        "0:c0n0s0 1:c1n0s0 3:c2n0s0",
	} {
		text := must.Get(os.ReadFile(filepath.Join("testdata", name+".txt")))(t)
		m, err := Read(tree(string(text)))
		var got []string
		for _, c := range m {
			got = append(got, fmt.Sprintf("%d:c%dn%ds%d", c.ID, c.Core, c.Node, c.Socket))
		}
		check.That(t, err == nil && strings.Join(got, " ") == want,
			"%s is %s, %v; want %s", name, strings.Join(got, " "), err, want)
	}
	for _, broken := range []string{"", "devices/system/cpu/online x"} {
		m, err := Read(tree(broken))
		check.That(t, err != nil, "%q is %v", broken, m)
	}
}

// TestReadAsLscpuDoes compares this machine with what util-linux makes of it.
func TestReadAsLscpuDoes(t *testing.T) {
	out := must.Get(exec.CommandContext(t.Context(), "lscpu", "-p=CPU,CORE,SOCKET,NODE").Output())(t)
	m := must.Get(Read(os.DirFS("/sys")))(t)
	theirs := map[int][3]int{}
	for line := range strings.Lines(string(out)) {
		var cpu, core, socket, node int
		if n, _ := fmt.Sscanf(line, "%d,%d,%d,%d", &cpu, &core, &socket, &node); n >= 3 {
			theirs[cpu] = [3]int{core, socket, node}
		}
	}
	must.That(t, len(m) == len(theirs), "%d hardware threads, lscpu has %d", len(m), len(theirs))
	for _, a := range m {
		for _, b := range m {
			x := theirs[a.ID]
			y := theirs[b.ID]
			must.That(t, (a.Core == b.Core) == (x[0] == y[0]) && (a.Socket == b.Socket) == (x[1] == y[1]) &&
				(a.Node == b.Node) == (x[2] == y[2]), "%+v and %+v are %v and %v to lscpu", a, b, x, y)
		}
	}
}

func TestBind(t *testing.T) {
	small := box(1, 1, 4, 1)
	large := box(2, 2, 4, 1)
	smt := box(2, 1, 2, 2)
	for _, tc := range []struct {
		name    string
		machine Machine
		policy  Policy
		ranks   int
		want    string // a set a rank, or what is wrong
	}{
		{"a core each", small, Policy{Unit: Core}, 3, "0 1 2"},
		{"two cores each", small, Policy{Unit: Core, Each: 2}, 2, "0-1 2-3"},
		{"both threads of a core", smt, Policy{Unit: Core}, 4, "0,4 1,5 2,6 3,7"},
		{"a thread each, a core's first", smt, Policy{Unit: Thread}, 3, "0 4 1"},
		{"two threads each", smt, Policy{Unit: Thread, Each: 2}, 4, "0,4 1,5 2,6 3,7"},
		{"blocks stay in a NUMA node", large, Policy{Unit: Core, Each: 3}, 4, "0-2 4-6 8-10 12-14"},
		{"or else in a socket", large, Policy{Unit: Core, Each: 5}, 2, "0-4 8-12"},
		{"or else they do not", large, Policy{Unit: Core, Each: 5}, 3, "0-4 5-9 10-14"},
		{"sockets in equal blocks", large, Policy{Unit: Socket}, 4, "0-7 0-7 8-15 8-15"},
		{"NUMA nodes in equal blocks", large, Policy{Unit: Node}, 4, "0-3 4-7 8-11 12-15"},
		{"NUMA nodes, one rank too many for equal blocks", large, Policy{Unit: Node}, 5, "0-3 0-3 4-7 8-11 12-15"},
		{"only what is allowed", large.Only(Set{0, 1, 8, 9, 10, 11, 12, 13}), Policy{Unit: Socket}, 4,
			"0-1 8-13 8-13 8-13"},
		{"too few cores", small, Policy{Unit: Core}, 5, "5 ranks need 5 cores, and there are 4"},
		{"too few for all", small, Policy{Unit: Core, Each: 3}, 2,
			"2 ranks, 3 cores each, need 6 cores, and there are 4"},
		{"too few for one", small.Only(Set{1}), Policy{Unit: Core, Each: 3}, 1, "1 rank needs 3 cores, and there is 1"},
		{"too few threads", smt.Only(Set{0, 4}), Policy{Unit: Thread}, 3,
			"3 ranks need 3 hardware threads, and there are 2"},
		{"more ranks on sockets than cores", small, Policy{Unit: Socket}, 5, "5 ranks need 5 cores, and there are 4"},
		{"too few cores, shared", small, Policy{Unit: Core, Overload: true}, 6, "0 1 2 3 0 1"},
		{"more cores than there are", small, Policy{Unit: Core, Each: 9, Overload: true}, 2, "0-3 0-3"},
		{"sockets, shared", small, Policy{Unit: Socket, Overload: true}, 5, "0-3 0-3 0-3 0-3 0-3"},
		{"nothing", nil, Policy{Unit: Core, Overload: true}, 1, "1 rank needs 1 core, and there are 0"},
		// The sets below are those of mpirun 4.1.4 and 5.0.11 on the same machine, described by
		// hwloc, where they agree with a case's numbering.
		{"sockets in turn", large, Policy{Unit: Socket, Over: Socket}, 4, "0-7 8-15 0-7 8-15"},
		{"sockets in turn, numbered by core", large, Policy{Unit: Socket, Over: Socket, Number: Core}, 4,
			"0-7 0-7 8-15 8-15"},
		{"a core of each socket in turn", large, Policy{Unit: Core, Over: Socket}, 4, "0 8 1 9"},
		{"two cores of each socket in turn", large, Policy{Unit: Core, Over: Socket, Each: 2}, 4, "0-1 8-9 2-3 10-11"},
		{"three cores, which stay in a NUMA node", large, Policy{Unit: Core, Over: Socket, Each: 3}, 4,
			"0-2 8-10 4-6 12-14"},
		{"NUMA nodes in turn", large, Policy{Unit: Node, Over: Node}, 5, "0-3 4-7 8-11 12-15 0-3"},
		{"L3 caches in turn, to cores", large, Policy{Unit: Core, Over: L3}, 4, "0 4 8 12"},
		{"two ranks a socket", large, Policy{Unit: Socket, Over: Socket, Fill: 2}, 4, "0-7 0-7 8-15 8-15"},
		{"two ranks a socket, to cores", large, Policy{Unit: Core, Over: Socket, Fill: 2}, 3, "0 1 8"},
		{"two ranks a socket, two cores each", large, Policy{
			Unit: Core,
			Over: Socket,
			Fill: 2,
			Each: 2,
		}, 4, "0-1 2-3 8-9 10-11"},
		{"two ranks a socket, to NUMA nodes", large, Policy{Unit: Node, Over: Socket, Fill: 2}, 4,
			"0-3 4-7 8-11 12-15"},
		{"cores, numbered over sockets", large, Policy{Unit: Core, Over: Core, Number: Socket}, 10,
			"0 8 1 9 2 3 4 5 6 7"},
		{"a full socket is passed over", large.Only(Set{0, 8, 9, 10}), Policy{Unit: Core, Over: Socket}, 4, "0 8 9 10"},
		{"threads of sockets", smt, Policy{Unit: Thread, Over: Socket}, 4, "0 2 4 6"},
		{"sockets with two threads a core", smt, Policy{Unit: Socket, Over: Socket}, 2, "0-1,4-5 2-3,6-7"},
		{"too few cores", smt, Policy{Unit: Core, Over: Socket}, 5, "5 ranks need 5 cores, and there are 4"},
		{"too many for a socket", large, Policy{Unit: Core, Over: Socket, Each: 5}, 3,
			"3 ranks, 5 cores each, do not fit into its sockets"},
		{"too few cores, shared", smt, Policy{Unit: Core, Over: Socket, Overload: true}, 5, "0,4 2,6 1,5 3,7 0,4"},
		{"more cores than a socket has, shared", smt, Policy{
			Unit:     Core,
			Over:     Socket,
			Each:     9,
			Overload: true,
		}, 2, "0-1,4-5 2-3,6-7"},
		{"nothing", nil, Policy{Unit: Core, Over: Socket, Overload: true}, 1, "1 rank needs 1 core, and there are 0"},
		{"all that there is", large, Policy{Unit: Whole, Overload: true}, 2, "0-15 0-15"},
	} {
		check.Equal(t, bound(tc.machine, tc.policy, tc.ranks), tc.want, tc.name)
	}
}

// bound returns the sets of ranks, or why there are too few cores.
func bound(m Machine, p Policy, ranks int) string {
	sets, err := m.Bind(p, ranks)
	var few *FewError
	if errors.As(err, &few) {
		return err.Error()
	}
	var texts []string
	for _, s := range sets {
		texts = append(texts, s.String())
	}
	return strings.Join(texts, " ")
}

// Ranks that fit never share a core, whatever they are bound to and however many they need, and
// dealt ranks have each a core of their own.
func TestBindNeverOverloads(t *testing.T) {
	for _, m := range []Machine{box(1, 1, 1, 1), box(2, 1, 3, 2), box(2, 2, 5, 1),
		box(2, 1, 4, 2).Only(Set{0, 2, 3, 5, 6, 7, 13})} {
		cores := len(m.split(Core))
		for each := 1; each <= cores; each++ {
			for ranks := 1; ranks*each <= cores; ranks++ {
				for _, unit := range []Unit{Core, Node, Socket} {
					sets := fits(t, m, Policy{Unit: unit, Each: each}, ranks)
					users := map[string]int{}
					for _, s := range sets {
						users[s.String()]++
						must.That(t, unit != Core || m.CoresOf(s) == each,
							"%d ranks with %d of %v get %v", ranks, each, m, sets)
					}
					for set, n := range users {
						s, _ := ParseSet(set)
						must.That(t, n <= m.CoresOf(s), "%d ranks by %v of %v: %d on %s", ranks, unit, m, n, set)
					}
				}
			}
		}
		for ranks := 1; ranks <= cores; ranks++ {
			for _, over := range []Unit{Core, L2, L3, Node, Socket, Whole} {
				for _, fill := range []int{0, 1, 3} {
					users := map[int]bool{}
					for _, s := range fits(t, m, Policy{Unit: Core, Over: over, Fill: fill}, ranks) {
						for _, id := range s {
							check.That(t, !users[id], "%d ranks over %v of %v: two on thread %d", ranks, over, m, id)
							users[id] = true
						}
					}
					must.That(t, len(users) >= ranks,
						"%d ranks over %v of %v have %d threads", ranks, over, m, len(users))
				}
			}
		}
	}
}

// fits returns the sets of ranks that have cores enough.
func fits(t *testing.T, m Machine, p Policy, ranks int) []Set {
	t.Helper()
	sets, err := m.Bind(p, ranks)
	must.That(t, err == nil && len(sets) == ranks, "%d ranks by %+v of %v: %v, %v", ranks, p, m, sets, err)
	return sets
}

func TestDescribe(t *testing.T) {
	m := box(2, 1, 4, 2)
	for cpus, want := range map[string]string{
		"2,10": "core 2 of socket 0", "10": "a hardware thread of core 2 of socket 0",
		"2-3,10-11": "cores 2-3 of socket 0",
		"2-3":       "2 hardware threads of cores 2-3 of socket 0", "0-15": "cores 0-7 of sockets 0-1",
		"4,6,12,14": "cores 4,6 of socket 1",
	} {
		s, err := ParseSet(cpus)
		got := m.Describe(s)
		check.That(t, err == nil && got == want, "%s is %q, want %q", cpus, got, want)
	}
	check.Equal(t, Flat(Set{3, 5}).Describe(Set{5}), "core 1 of socket 0", "on a machine without a topology")
}

func TestParseSet(t *testing.T) {
	for text, want := range map[string]string{"0-3,8\n": "0-3,8", "": "", "\n": "", "5": "5", "3,1-2": "1-3",
		"1,1": "1"} {
		got, err := ParseSet(text)
		check.That(t, err == nil && got.String() == want, "%q is %s, %v", text, got, err)
	}
	for _, text := range []string{"x", "3-1", "-1", "1-", "0-99999999", "1 2"} {
		got, err := ParseSet(text)
		check.That(t, err != nil, "%q is %v", text, got)
	}
}

func TestQuota(t *testing.T) {
	for name, tc := range map[string]struct {
		files string
		want  float64
	}{
		"none":      {"", 0},
		"version 2": {"proc/self/cgroup 0::/a/b\nsys/fs/cgroup/a/b/cpu.max 150000 100000", 1.5},
		"no limit":  {"proc/self/cgroup 0::/a\nsys/fs/cgroup/a/cpu.max max 100000", 0},
		"a group above": {"proc/self/cgroup 0::/a/b\nsys/fs/cgroup/a/b/cpu.max 400000 " +
			"100000\nsys/fs/cgroup/a/cpu.max 200000 100000", 2},
		"a container":          {"proc/self/cgroup 0::/\nsys/fs/cgroup/cpu.max 300000 100000", 3},
		"its groups are there": {"proc/self/cgroup 0::/docker/0123\nsys/fs/cgroup/cpu.max 200000 100000", 2},
		"both versions":        {"proc/self/cgroup 0::/a\nsys/fs/cgroup/unified/a/cpu.max 50000 100000", 0.5},
		"another group's": {"proc/self/cgroup 1:cpuset:/a\n2:cpuacct:/a\n" +
			"sys/fs/cgroup/a/cpu.max 100000 100000", 0},
		"version 1": {"proc/self/cgroup 4:cpu,cpuacct:/docker/1\nsys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us 250000\n" +
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us 100000", 2.5},
		"version 1 without a limit": {"proc/self/cgroup 4:cpu:/\nsys/fs/cgroup/cpu/cpu.cfs_quota_us " +
			"-1\nsys/fs/cgroup/cpu/cpu.cfs_period_us 100000", 0},
		"nonsense": {"proc/self/cgroup 0::../../x\nsys/fs/cgroup/cpu.max 1", 0},
	} {
		check.Equal(t, Quota(tree(tc.files)), tc.want, name)
	}
	m := box(1, 1, 4, 2)
	for quota, want := range map[float64]int{0: 4, 0.5: 1, 1.9: 1, 3: 3, 64: 4} {
		check.Equal(t, m.Room(quota), want, "with the time of", quota, "CPUs there is room for")
	}
}
