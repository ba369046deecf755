package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestFixedSeats(t *testing.T) {
	hosts := []hostfile.Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 1}, {Name: "c", Slots: 1, MaxSlots: 1}}
	for _, tc := range []struct {
		seats string // the host of each rank
		req   Request
		want  string
	}{
		{"b a a", Request{}, "a:1,2 b:0"},
		{"c", Request{}, "c:0"},
		{"b b", Request{}, "b:0,1 (2 ranks on 1 slot: more than one rank per slot (b:2))"},
		{"b b", Request{NoOversubscribe: true}, "2 ranks need 2 slots, but the host has 1"},
		{"c c", Request{}, "2 ranks need 2 max_slots, but the host has 1"},
		{"", Request{}, "0 ranks: a job has 1 to 1048576"},
	} {
		var seats []Seat
		for name := range strings.FieldsSeq(tc.seats) {
			seats = append(seats, Seat{Host: int(name[0] - 'a'), Cores: "1:" + name})
		}
		p, err := Fixed(hosts, seats, tc.req)
		var parts []string
		for _, h := range p.Hosts {
			var ranks []string
			for i, r := range h.Ranks {
				check.That(t, r.LocalRank == i && r.Cores == "1:"+h.Name && h.Has(r.Rank), "%s: %+v", tc.seats, r)
				ranks = append(ranks, fmt.Sprint(r.Rank))
			}
			parts = append(parts, h.Name+":"+strings.Join(ranks, ","))
		}
		for _, w := range p.Warnings {
			parts = append(parts, "("+w+")")
		}
		got := strings.Join(parts, " ")
		var few *SlotsError
		if err != nil {
			got = err.Error()
			check.That(t, len(seats) == 0 || errors.As(err, &few), "%s: %T", tc.seats, err)
		}
		check.Equal(t, got, tc.want, tc.seats)
	}
}

// The numbers are those of mpiexec.hydra 4.0.2.
func TestRanksBeyondTheSlotsAreNumberedByRound(t *testing.T) {
	for _, tc := range []struct {
		hosts []hostfile.Host
		np    int
		want  string
	}{
		{[]hostfile.Host{{Name: "a", Slots: 1}, {Name: "b", Slots: 1}}, 4, "a: ranks 0, 2 b: ranks 1, 3"},
		{[]hostfile.Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 1}}, 5, "a: ranks 0-1, 3-4 b: rank 2"},
		{[]hostfile.Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 2}}, 3, "a: ranks 0-1 b: rank 2"},
		{[]hostfile.Host{{Name: "a", Slots: 1, MaxSlots: 1}, {Name: "b", Slots: 1}}, 3, "a: rank 0 b: ranks 1-2"},
	} {
		p := must.Get(New(tc.hosts, Request{NP: tc.np, RankBy: ByRound}))(t)
		var got []string
		for _, h := range p.Hosts {
			got = append(got, h.Name+": "+h.RankList())
		}
		check.Equal(t, strings.Join(got, " "), tc.want, tc.np, "ranks")
	}
}
