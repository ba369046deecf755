package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The expected sets are those of mpirun 4.1.4 and 5.0.11 on the same machine, described by hwloc,
// where they agree with a case's numbering.
func TestDealToUnits(t *testing.T) {
	large := box(2, 2, 4, 1)
	smt := box(2, 1, 2, 2)
	for _, tc := range []struct {
		name    string
		machine Machine
		policy  Policy
		ranks   int
		want    string
	}{
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
		if got := bound(tc.machine, tc.policy, tc.ranks); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// Dealt ranks that fit never share a core, and none is without one.
func TestDealtRanksHaveCoresOfTheirOwn(t *testing.T) {
	for _, m := range []Machine{box(1, 1, 1, 1), box(2, 2, 5, 1), box(2, 1, 4, 2).Only(Set{0, 2, 3, 5, 6, 7, 13})} {
		cores := len(m.split(Core))
		for _, over := range []Unit{Core, L2, L3, Node, Socket, Whole} {
			for _, fill := range []int{0, 1, 3} {
				for ranks := 1; ranks <= cores; ranks++ {
					sets, err := m.Bind(Policy{Unit: Core, Over: over, Fill: fill}, ranks)
					users := map[int]bool{}
					for _, s := range sets {
						for _, id := range s {
							if users[id] {
								t.Errorf("%d ranks over %v of %v: two on thread %d", ranks, over, m, id)
							}
							users[id] = true
						}
					}
					if err != nil || len(sets) != ranks || len(users) < ranks {
						t.Fatalf("%d ranks over %v of %v: %v, %v", ranks, over, m, sets, err)
					}
				}
			}
		}
	}
}

func TestReadCaches(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "epyc.txt"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := Read(tree(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range []Unit{Thread, Core, L2, L3, Node, Socket} {
		got = append(got, fmt.Sprint(m.Count(u)))
	}
	if want := "16 8 8 4 1 2"; strings.Join(got, " ") != want {
		t.Errorf("it has %s units, want %s", strings.Join(got, " "), want)
	}
	sets, err := m.Bind(Policy{Unit: L3, Over: L3}, 4)
	if fmt.Sprint(sets) != "[0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15]" || err != nil {
		t.Errorf("L3 caches: %v, %v", sets, err)
	}
	bare := box(2, 2, 2, 1)
	bare.readCaches(tree(""))
	if bare.Count(L2) != 8 || bare.Count(L3) != 2 {
		t.Errorf("without caches: %d of level 2, %d of level 3; want cores and sockets", bare.Count(L2), bare.Count(L3))
	}
}

func TestPickCores(t *testing.T) {
	m := box(2, 1, 4, 2)
	for text, want := range map[string]string{
		"2": "2,10", "2-3": "2-3,10-11", "1:0-1": "4-5,12-13", "0:0,1": "0-1,8-9", "0:0,1:0": "0,4,8,12",
		"0,1:2": "0,6,8,14", "1:*": "4-7,12-15", "*": "0-15", "*:1": "1,9",
		"0-1:*": "0-15",
		"8":     `there is no core 8 to use for "8"`, "1:4": `there is no core 4 to use for "1:4"`,
		"2:0": "there is no core to use in socket 2",
		"x":   `"x" is no list such as 0-3, or 1:0-3 for the cores of socket 1`, "x:0": `"x" is no number of a socket`,
		"": `"" names no core`,
	} {
		got, err := m.Pick(text)
		if err != nil && err.Error() != want || err == nil && got.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
}

func TestCoresInOrder(t *testing.T) {
	m := box(2, 1, 4, 2)
	for list, want := range map[string]string{
		"4,0-1": "[4,12 0,8 1,9]", "1,1": "[1,9]",
		"8": "there is no core 8 to use; there are cores 0-7", "": `"" is no list of cores such as 0-3,8`,
		"a": `"a" is no list of cores such as 0-3,8`,
	} {
		chosen, err := m.Cores(list)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			sets, bindErr := chosen.Bind(Policy{Unit: Core}, len(chosen)/2)
			got = fmt.Sprint(sets)
			err = bindErr
		}
		if got != want {
			t.Errorf("%q: %s, %v; want %s", list, got, err, want)
		}
	}
}
