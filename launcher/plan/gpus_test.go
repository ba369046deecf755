package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// turns returns the placements of a host's ranks when they take its GPUs in turn.
func turns(h Host, gpus int) (places []wire.Placement) {
	for _, r := range h.Ranks {
		places = append(places, wire.Placement{Rank: r.Rank, GPUs: []string{fmt.Sprint(r.LocalRank % gpus)}})
	}
	return places
}

func TestSharedGPUs(t *testing.T) {
	for _, tt := range []struct {
		hosts []hostfile.Host
		gpus  []int
		want  string
	}{
		{[]hostfile.Host{{Name: "f1", Slots: 6}}, []int{4}, "f1: ranks 0 and 4 share GPU 0, 1 and 5 GPU 1" + leaveGPUs},
		{[]hostfile.Host{{Name: "f1", Slots: 4}}, []int{4}, ""},
		{[]hostfile.Host{{Name: "f1", Slots: 2}, {Name: "f2", Slots: 3}}, []int{2, 1},
			"f2: ranks 2, 3 and 4 share GPU 0" + leaveGPUs},
		{[]hostfile.Host{{Name: "f1", Slots: 3}, {Name: "f2", Slots: 3}}, []int{2, 2},
			"on f1 and f2 local ranks 0 and 2 share GPU 0" + leaveGPUs},
		{[]hostfile.Host{{Name: "f1", Slots: 3}, {Name: "f2", Slots: 2}}, []int{2, 1}, "f1: ranks 0 and 2 share GPU 0" +
			leaveGPUs + "|f2: ranks 3 and 4 share GPU 0" + leaveGPUs},
		{[]hostfile.Host{{Name: "f1", Slots: 64}}, []int{1}, "f1: ranks 0, 1, 2, 3 and 60 more share GPU 0" +
			leaveGPUs},
		{[]hostfile.Host{{Name: "f1", Slots: 16}}, []int{8},
			"f1: ranks 0 and 8 share GPU 0, 1 and 9 GPU 1, 2 and 10 GPU 2, 3 and 11 GPU 3, and so on" + leaveGPUs},
	} {
		plan := must.Get(New(tt.hosts, Request{}))(t)
		var places [][]wire.Placement
		for i, h := range plan.Hosts {
			places = append(places, turns(h, tt.gpus[i]))
		}
		check.Equal(t, strings.Join(SharedGPUs(plan, places), "|"), tt.want)
	}
	// An agent's words are an agent's, and it may say nothing.
	plan, _ := New([]hostfile.Host{{Name: "f1", Slots: 2}}, Request{})
	odd := []string{"MIG-\x1b"}
	got := strings.Join(SharedGPUs(plan, [][]wire.Placement{{{Rank: 0, GPUs: odd}, {Rank: 1, GPUs: odd},
		{Rank: 7, GPUs: odd}}}), "|")
	check.Equal(t, got, "f1: ranks 0 and 1 share GPU MIG-?"+leaveGPUs, "got")
	if got := SharedGPUs(plan, make([][]wire.Placement, 1)); got != nil {
		t.Errorf("got %q", got)
	}
	want := "there are 2 GPUs?, which all ranks see on f1"
	check.Equal(t, GPUsText(plan.Hosts, []string{"2 GPUs\x07, which all ranks see"}), want)
}

func TestSlotsThatShareGPUs(t *testing.T) {
	users := GPUUsers{}
	var said []string
	for _, have := range []struct {
		host string
		slot int
		gpus []string
	}{{"f1", 0, []string{"0"}}, {"f2", 1, []string{"0"}}, {"f1", 0, []string{"0"}}, {"f1", 1, []string{"1"}},
		{"f1", 2, []string{"0"}}, {"f1", 3, []string{"0"}}, {"f1", 4, nil}} {
		if text := users.Add(have.host, have.slot, have.gpus); text != "" {
			said = append(said, text)
		}
	}
	want := "f1: slots 0 and 2 share GPU 0" + leaveGPUs
	check.Equal(t, strings.Join(said, "|"), want)
	for n := range 2 * mostGPUs {
		users.Add("f3", 0, []string{fmt.Sprint(n)})
	}
	check.Equal(t, len(users["f3"]), mostGPUs, "GPUs of a host that tells of others each time")
}
