package seat

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/host/topology"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// fourCores are two sockets of two cores of two threads.
func fourCores() *Host {
	var m topology.Machine
	for id := range 8 {
		m = append(m, topology.CPU{
			ID:     id,
			Core:   id / 2,
			Node:   id / 4,
			Socket: id / 4,
		})
	}
	return &Host{machine: m, Cores: 4, try: func(topology.Set) error { return nil }}
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
		{wire.Binding{To: "core"}, 5, "ranks cannot be bound: 5 ranks need 5 cores, and there are 4",
			"give the host 4 ranks at most (-H host:4), or say --bind-to core:overload-allowed"},
		{wire.Binding{To: "numa", Each: 3}, 2,
			"ranks cannot be bound: 2 ranks, 3 cores each, need 6 cores, and there are 4",
			"1 rank at most (-H host:1), or say --bind-to numa:"},
		{wire.Binding{To: "core", Each: 5}, 1, "ranks cannot be bound: 1 rank needs 5 cores, and there are 4",
			"ask for fewer --cpus-per-rank"},
		{wire.Binding{To: "socket", Over: "socket"}, 3, "0-3/1 4-7/2 0-3/1", ""},
		{wire.Binding{To: "core", Over: "socket"}, 3, "0-1/1 4-5/1 2-3/1", ""},
		{wire.Binding{To: "socket", Over: "socket", Number: "core"}, 4, "0-3/1 0-3/1 4-7/1 4-7/1", ""},
		{wire.Binding{
			To:   "core",
			Each: 2,
			Over: "socket",
			Fill: 1,
		}, 2, "0-3/2 4-7/2", ""},
		{wire.Binding{To: "socket", Over: "socket", Soft: true}, 5, "-/1 -/1 -/1 -/1 -/1", ""},
		{wire.Binding{To: "core", Each: 3, Over: "socket"}, 1,
			"ranks cannot be bound: 1 rank, 3 cores each, do not fit into its sockets",
			"ask for fewer --cpus-per-rank"},
		{wire.Binding{To: "cpu-list", Overload: true, Cores: "3,0"}, 2, "0-1,6-7/1 0-1,6-7/1", ""},
		{wire.Binding{To: "core", Cores: "3,0"}, 2, "6-7/1 0-1/1", ""},
		{wire.Binding{To: "core", Cores: "0-4"}, 2, "--cpu-list 0-4: there is no core 4 to use; there are cores 0-3",
			"correct --cpu-list"},
		{wire.Binding{CPUs: "0+4,1-2"}, 3, "0,4/1 1-2/2 0,4/1", ""},
		{wire.Binding{CPUs: "8"}, 1, "local rank 0 cannot be bound to cpus 8: this host lets ranks use cpus 0-7",
			"correct --rank-cpus"},
		{wire.Binding{To: "board"}, 1, `ranks cannot be bound to "board"`, ""},
	} {
		all, err := seats(fourCores(), tc.binding, tc.ranks)
		var got []string
		for _, s := range all {
			cpus := s.CPUs.String()
			if s.CPUs == nil {
				cpus = "-"
			}
			got = append(got, fmt.Sprintf("%s/%d", cpus, s.Threads))
		}
		var no *wire.Refuse
		if errors.As(err, &no) {
			got = []string{no.What}
			check.That(t, no.Code == wire.CodeHostFailed && strings.Contains(no.Remedy, tc.hint),
				"%+v: %+v", tc.binding, no)
		}
		check.Equal(t, strings.Join(got, " "), tc.want, tc.binding, "for", tc.ranks, "ranks")
	}
}

func TestSeatsOfARankfile(t *testing.T) {
	for cores, want := range map[string]string{"1:0": "4-5", "2,0": "0-1,4-5", "": "-",
		"7": `rank 4 cannot be bound: there is no core 7 to use for "7"`} {
		job := wire.Job{Ranks: []wire.Rank{{Rank: 4, Cores: cores}, {Rank: 5, LocalRank: 1, Cores: "3"}}}
		all, err := seatsFor(job, fourCores())
		got := "-"
		switch {
		case err != nil:
			got = err.Error()
		case all[0].CPUs != nil:
			got = all[0].CPUs.String()
		}
		check.That(t, got == want && (err != nil || all[1].CPUs.String() == "6-7"),
			"slot=%s: %s, want %s", cores, got, want)
	}
}

func TestBindingThatTheSystemForbids(t *testing.T) {
	job := wire.Job{Ranks: []wire.Rank{{Rank: 4}, {Rank: 5, LocalRank: 1}}}
	job.Binding.To = "core"
	forbidden := fourCores()
	forbidden.try = func(cpus topology.Set) error {
		if cpus.Has(2) {
			return syscall.EPERM
		}
		return nil
	}
	a := &assignment{visible: make([]Visibility, 1), job: job, own: forbidden}
	var no *wire.Refuse
	err := a.assign()
	check.That(t, errors.As(err, &no) && no.What == "rank 5 cannot be bound to cpus 2-3: operation not permitted" &&
		strings.Contains(no.Remedy, ":if-supported"), "%+v", err)
	a.job.Binding.IfSupported = true
	must.OK(t, a.assign())
	check.Equal(t, fmt.Sprint(a.locations()), "[{4   1 []} {5   1 []}]", "places")
	a.own = fourCores()
	must.OK(t, a.assign())
	check.Equal(t, fmt.Sprint(a.locations()), "[{4 0-1 core 0 of socket 0 1 []} {5 2-3 core 1 of socket 0 1 []}]",
		"places")
}
