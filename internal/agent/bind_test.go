package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/topology"
	"github.com/gorun/gorun/internal/wire"
)

// fourCores are two sockets of two cores of two threads.
func fourCores() resources {
	var m topology.Machine
	for id := range 8 {
		m = append(m, topology.CPU{ID: id, Core: id / 2, Node: id / 4, Socket: id / 4})
	}
	return resources{machine: m, cores: 4, try: func(topology.Set) error { return nil }}
}

func TestSeats(t *testing.T) {
	for _, tc := range []struct {
		binding wire.Binding
		ranks   int
		want    string // the hardware threads and the number of threads of each rank, or the refusal
		hint    string
	}{
		{wire.Binding{}, 1, "-/4", ""},
		{wire.Binding{}, 3, "-/1 -/1 -/1", ""},
		{wire.Binding{}, 9, strings.Repeat("-/1 ", 8) + "-/1", ""},
		{wire.Binding{Each: 2}, 3, "-/2 -/2 -/2", ""},
		{wire.Binding{To: "core"}, 2, "0-1/1 2-3/1", ""},
		{wire.Binding{To: "core", Each: 2}, 2, "0-3/2 4-7/2", ""},
		{wire.Binding{To: "hwthread"}, 3, "0/1 1/1 2/1", ""},
		{wire.Binding{To: "hwthread", Each: 4}, 1, "0-3/2", ""},
		{wire.Binding{To: "socket"}, 2, "0-3/2 4-7/2", ""},
		{wire.Binding{To: "numa"}, 4, "0-3/1 0-3/1 4-7/1 4-7/1", ""},
		{wire.Binding{To: "socket", Each: 2}, 2, "0-3/2 4-7/2", ""},
		{wire.Binding{To: "core", Overload: true}, 5, "0-1/1 2-3/1 4-5/1 6-7/1 0-1/1", ""},
		{wire.Binding{To: "core"}, 5, "ranks cannot be bound: 5 ranks need 5 cores, and there are 4", "give the host 4 ranks at most (-H host:4), or say --bind-to core:overload-allowed"},
		{wire.Binding{To: "numa", Each: 3}, 2, "ranks cannot be bound: 2 ranks, 3 cores each, need 6 cores, and there are 4", "1 rank at most (-H host:1), or say --bind-to numa:"},
		{wire.Binding{To: "core", Each: 5}, 1, "ranks cannot be bound: 1 rank needs 5 cores, and there are 4", "ask for fewer --cpus-per-rank"},
		{wire.Binding{To: "board"}, 1, `ranks cannot be bound to "board"`, ""},
	} {
		all, err := seats(fourCores(), tc.binding, tc.ranks)
		var got []string
		for _, s := range all {
			cpus := s.cpus.String()
			if s.cpus == nil {
				cpus = "-"
			}
			got = append(got, fmt.Sprintf("%s/%d", cpus, s.threads))
		}
		var no *refusal
		if errors.As(err, &no) {
			got = []string{no.What}
			if no.Code != codeHostFailed || !strings.Contains(no.Hint, tc.hint) {
				t.Errorf("%+v: %+v", tc.binding, no)
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%+v for %d ranks: %s, want %s", tc.binding, tc.ranks, strings.Join(got, " "), tc.want)
		}
	}
}

func TestBindingThatTheSystemForbids(t *testing.T) {
	job := wire.Job{Ranks: []wire.Rank{{Rank: 4}, {Rank: 5, LocalRank: 1}}, Binding: wire.Binding{To: "core"}}
	forbidden := fourCores()
	forbidden.try = func(cpus topology.Set) error {
		if cpus.Has(2) {
			return syscall.EPERM
		}
		return nil
	}
	a := agent{progs: make([]program, 1), job: job, own: forbidden}
	var no *refusal
	err := a.sit()
	if !errors.As(err, &no) || no.What != "rank 5 cannot be bound to cpus 2-3: operation not permitted" || !strings.Contains(no.Hint, ":if-supported") {
		t.Errorf("%+v", err)
	}
	a.job.Binding.IfSupported = true
	if err := a.sit(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(a.places()); got != "[{4   1 []} {5   1 []}]" {
		t.Errorf("places %s", got)
	}
	a.own = fourCores()
	if err := a.sit(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(a.places()); got != "[{4 0-1 core 0 of socket 0 1 []} {5 2-3 core 1 of socket 0 1 []}]" {
		t.Errorf("places %s", got)
	}
}

// The number of threads is ours to set only where the user has not.
func TestThreadsOfARank(t *testing.T) {
	for _, tc := range []struct {
		inherited, sent string
		singularity     bool
		argv            string
		want            []string
	}{
		{"A=1", "B=1", false, "env OMP_NUM_THREADS=9 a", []string{"OMP_NUM_THREADS=2"}},
		{"A=1", "OMP_NUM_THREADS=7", false, "env OMP_NUM_THREADS=9 a", []string{"OMP_NUM_THREADS=7"}},
		{"OMP_NUM_THREADS=3", "A=1", false, "env OMP_NUM_THREADS=9 a", []string{"OMP_NUM_THREADS=3"}},
		{"OMP_NUM_THREADS=", "A=1", false, "env OMP_NUM_THREADS=9 a", []string{"OMP_NUM_THREADS="}},
		{"A=1", "B=1", true, "env A=1 singularity", []string{"APPTAINERENV_OMP_NUM_THREADS=2", "OMP_NUM_THREADS=2", "SINGULARITYENV_OMP_NUM_THREADS=2"}},
		{"A=1", "B=1", true, "env OMP_NUM_THREADS=9 singularity", nil},
		{"A=1", "SINGULARITYENV_OMP_NUM_THREADS=5", true, "env A=1 singularity", []string{"SINGULARITYENV_OMP_NUM_THREADS=5"}},
	} {
		job := wire.Job{Env: [][]byte{[]byte(tc.sent)}, Ranks: make([]wire.Rank, 2)}
		p := program{env: baseEnv([]string{tc.inherited}, job, wire.Program{}), singularity: tc.singularity, argv: strings.Fields(tc.argv)}
		seats, err := seatsFor(job, fourCores())
		if err != nil {
			t.Fatal(err)
		}
		p.sit(seats)
		got := slices.DeleteFunc(p.rankEnv(rankenv.Rank{LocalRank: 1}), func(kv string) bool { return !strings.Contains(kv, "OMP_NUM") })
		slices.Sort(got)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %q", tc, got)
		}
	}
}
