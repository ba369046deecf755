package plan

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/must"
)

func TestBindingLines(t *testing.T) {
	plan, err := New([]hostfile.Host{{Name: "f1", Slots: 2}, {Name: "f2", Slots: 1}}, Request{MapBy: ByNode})
	must.OK(t, err)
	places := [][]wire.Placement{
		{{
			Rank:    0,
			CPUs:    "0-1",
			Where:   "cores 0-1 of socket 0",
			Threads: 2,
		}, {
			Rank:    2,
			CPUs:    "5",
			Where:   "core\x1b 5 of socket 0",
			Threads: 1,
		}},
		{{Rank: 1, Threads: 2}},
	}
	want := "rank 0 on f1: cores 0-1 of socket 0 (cpus 0-1)\nrank 1 on f2: not bound\nrank 2 on f1: core? 5 of " +
		"socket 0 (cpu 5)"
	if got := strings.Join(BindingLines(plan, places), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	want = "OMP_NUM_THREADS is not set; ranks get 2 on f1 and f2; 1 on f1"
	if got := ThreadsText(plan, places); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ThreadsText(plan, [][]wire.Placement{{{Rank: 0}}, nil}); got != "" {
		t.Errorf("nothing was set: %q", got)
	}
	want = "ranks are contained by cgroup v2 on f1; their?tree on f2"
	if got := ContainedText(plan.Hosts, []string{"cgroup v2", "their\x1btree"}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	want = "ranks are contained by cgroup v2 on f1 and f2"
	if got := ContainedText(plan.Hosts, []string{"cgroup v2", "cgroup v2"}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := ContainedText(plan.Hosts, make([]string, 2)); got != "" {
		t.Errorf("agents said nothing: %q", got)
	}
	got := strings.Join(BindingLines(plan, make([][]wire.Placement, 2)), "\n")
	if strings.Count(got, ": not bound") != 3 {
		t.Errorf("without places: %q", got)
	}
}
