package plan

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestBindingLines(t *testing.T) {
	plan := must.Get(New([]hostfile.Host{{Name: "f1", Slots: 2}, {Name: "f2", Slots: 1}}, Request{MapBy: ByNode}))(t)
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
	check.Equal(t, strings.Join(BindingLines(plan, places), "\n"), want)
	want = "OMP_NUM_THREADS is not set; ranks get 2 on f1 and f2; 1 on f1"
	check.Equal(t, ThreadsText(plan, places), want)
	check.Equal(t, ThreadsText(plan, [][]wire.Placement{{{Rank: 0}}, nil}), "", "nothing was set")
	want = "ranks are contained by cgroup v2 on f1; their?tree on f2"
	check.Equal(t, ContainedText(plan.Hosts, []string{"cgroup v2", "their\x1btree"}), want)
	want = "ranks are contained by cgroup v2 on f1 and f2"
	check.Equal(t, ContainedText(plan.Hosts, []string{"cgroup v2", "cgroup v2"}), want)
	check.Equal(t, ContainedText(plan.Hosts, make([]string, 2)), "", "agents said nothing")
	got := strings.Join(BindingLines(plan, make([][]wire.Placement, 2)), "\n")
	check.That(t, strings.Count(got, ": not bound") == 3, "without places: %q", got)
}
