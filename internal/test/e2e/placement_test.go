package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// allowed returns the cores that this process may use.
func allowed(t *testing.T) topology.Machine {
	t.Helper()
	return must.Get(topology.Here())(t)
}

func TestRanksAreBound(t *testing.T) {
	m := allowed(t)
	sets := must.Get(m.Bind(topology.Policy{Unit: topology.Core, Overload: true}, 2))(t)
	// Children of a rank inherit its binding.
	r := command.Start(t, nil, "-np", "2", "--bind-to", "core:overload-allowed", "--report-bindings", "--prefix",
		"none", "--unset-env", "OMP_NUM_THREADS",
		"sh", "-c", `echo "$RANK $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status) $OMP_NUM_THREADS"`)
	r.Want(0)
	for rank, set := range sets {
		noun := "cpu"
		if len(set) > 1 {
			noun = "cpus"
		}
		line := fmt.Sprintf("gorun: rank %d on localhost: %s (%s %s)\n", rank, m.Describe(set), noun, set)
		check.That(t, strings.Contains(r.Err.String(), line), "stderr lacks %q:\n%s", line, r.Err.String())
		if line := fmt.Sprintf("%d %s 1", rank, set); !slices.Contains(r.Lines(), line) {
			t.Errorf("stdout lacks %q:\n%s", line, r.Out.String())
		}
	}
}

func TestTooFewCoresToBindTo(t *testing.T) {
	ranks := allowed(t).Room(0) + 1
	c := lab.MustLoopback(t, lab.Specs(2)...)
	file := t.TempDir() + "/started"
	command.Start(t, c, "-H", fmt.Sprintf("f1:%d,f2", ranks), "--bind-to", "core", "touch", file).Want(125,
		fmt.Sprintf("gorun: error: f1: ranks cannot be bound: %d ranks need %d cores, and there", ranks, ranks),
		"gorun: hint: f1: give the host ", "--bind-to core:overload-allowed")
	check.Error(os.Stat(file)).Any(t, "a rank was started on the host that could bind its own")
}

func TestThreadsOfRanks(t *testing.T) {
	echo := []string{"--prefix", "none", "sh", "-c", "echo $OMP_NUM_THREADS"}
	said := func(env []string, args ...string) string {
		r := command.StartIn(t, nil, env, append(append([]string{}, args...), echo...)...).Want(0)
		return strings.TrimSpace(r.Out.String()) + "|" + r.Err.String()
	}
	cores := fmt.Sprint(topology.Cores())
	got := said(nil, "-np", "1", "--unset-env", "OMP_NUM_THREADS")
	check.That(t, got == cores+"|", "a rank alone gets %q, want all %s cores, and nothing said", got, cores)
	check.Equal(t, said(nil, "-np", "1", "-x", "OMP_NUM_THREADS=41"), "41|", "-x")
	check.Equal(t, said([]string{"OMP_NUM_THREADS=42"}, "-np", "1"), "42|", "from the environment")
	got = said(nil, "-np", "1", "-v", "--unset-env", "OMP_NUM_THREADS")
	check.That(t, strings.Count(got, "OMP_NUM_THREADS is not set; ranks get "+cores+" on localhost") == 1,
		"-v: %q", got)
	check.Equal(t, said(nil, "-np", "1", "--cpus-per-rank", "5", "--bind-to", "none", "--unset-env", "OMP_NUM_THREADS"),
		"5|", "--cpus-per-rank")
}

// gorun asks a host with slots=auto for its cores; all hosts here are this machine.
func TestAutoSlotsOfOtherHosts(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	cores := topology.Cores()
	r := command.Start(t, c, "-H", "f1:auto,f2:1", "--map-by", "node", "--display-map", "true").Want(0)
	got := r.Err.String()
	check.That(t, strings.Contains(got, fmt.Sprintf("%d ranks on 2 hosts", cores+1)) &&
		strings.Contains(got, "f2  1 slot, rank 1\n"), "with %d cores: %s", cores, got)
	r = command.Start(t, c, "hosts", "--check", "--json", "-H", "f1:auto,f2:1").Want(0)
	var d struct{ Hosts []struct{ Slots int } }
	if err := json.Unmarshal(r.Out.Bytes(), &d); err != nil || d.Hosts[0].Slots != cores {
		t.Errorf("with %d cores: %v: %s", cores, err, r.Out.String())
	}
	r = command.Start(t, c, "-H", "f1:3,f2:1", "--dry-run", "--json", "--map-by", "node", "--bind-to", "numa",
		"true").Want(0)
	var plan struct {
		Ranks int
		Hosts []struct {
			Slots int
			Ranks []struct{ Rank int }
		}
		MapBy  string `json:"map_by"`
		RankBy string `json:"rank_by"`
		BindTo string `json:"bind_to"`
	}
	if err := json.Unmarshal(r.Out.Bytes(), &plan); err != nil {
		t.Fatalf("%v: %s", err, r.Out.String())
	}
	check.That(t, plan.Ranks == 4 && plan.Hosts[0].Slots == 3 && plan.Hosts[1].Ranks[0].Rank == 1 &&
		plan.MapBy == "node" && plan.RankBy == "node" && plan.BindTo == "numa",
		"%+v", plan)
	command.Start(t, c, "-H", "f1:auto,nowhere.invalid:auto", "true").Want(125, "gorun: error: nowhere.invalid: ")
}

// Hosts count their sockets before ranks are planned, and bind them by their own topology. All
// hosts here are this machine.
func TestRanksForEachSocketOfOtherHosts(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	m := allowed(t)
	each := 2 * m.Count(topology.Socket)
	r := command.Start(t, c, "-H", "f1,f2", "--map-by", "ppr:2:socket", "--display-map", "--report-bindings",
		"true").Want(0)
	sets, err := m.Bind(topology.Policy{Unit: topology.Socket, Over: topology.Socket, Fill: 2}, each)
	if err == nil { // where cores are too few, ranks stay unbound
		first := m.Describe(sets[0])
		got := r.Err.String()
		check.That(t, strings.Count(got, " on f1: "+first) != 0 && strings.Count(got, " on f2: "+first) != 0,
			"not bound to %s: %s", first, got)
	}
	if got := r.Err.String(); !strings.Contains(got, fmt.Sprintf("%d ranks on 2 hosts\ngorun:   f1  %d slots", 2*each,
		each)) {
		t.Errorf("with %d ranks a host: %s", each, got)
	}
	r = command.Start(t, c, "-H", "f1,f2", "--ppn", "1:numa", "--dry-run", "true").Want(0)
	if got := r.Out.String(); !strings.Contains(got, "f1  1 for each numa\n") ||
		!strings.Contains(got, "a run first counts the NUMA nodes of f1 and f2") {
		t.Errorf("--dry-run: %s", got)
	}
	command.Start(t, c, "-H", "f1,nowhere.invalid", "--ppn", "1:socket", "true").Want(125,
		"gorun: error: nowhere.invalid: ")

	ranks := filepath.Join(t.TempDir(), "ranks")
	must.OK(t, os.WriteFile(ranks, []byte("rank 0=f2 slot=0:0\nrank 1=f1 slot=0\nrank 2=f2\n"), 0o600))
	r = command.Start(t, c, "--rankfile", ranks, "--report-bindings", "--prefix", "none", "sh", "-c",
		"echo $RANK $GORUN_HOSTNAME").Want(0)
	for _, line := range []string{"rank 0 on f2: ", "rank 1 on f1: ", "rank 2 on f2: not bound"} {
		check.That(t, strings.Contains(r.Err.String(), line), "%q is missing: %s", line, r.Err.String())
	}
	got := strings.Split(strings.TrimSpace(r.Out.String()), "\n")
	slices.Sort(got)
	want := []string{"0 f2", "1 f1", "2 f2"}
	check.That(t, slices.Equal(got, want), "ranks ran as %q, want %q", got, want)
	command.Start(t, c, "--rankfile", ranks, "-H", "f2", "true").Want(2,
		"puts rank 1 on f1, which is none of the hosts from -H")
}
