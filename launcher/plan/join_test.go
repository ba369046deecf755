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

func TestJoinPlans(t *testing.T) {
	for _, tc := range []struct {
		name  string
		parts string // NP@hosts, parted by spaces
		req   Request
		want  string // host:ranks, parted by spaces
		warns string
	}{
		{"hosts of their own", "1@a 2@b:2", Request{}, "a[0] b[1 2]", ""},
		{"a host of both, its ranks not consecutive", "2@a:2,b 1@c 1@b:2", Request{}, "a[0 1] b[3] c[2]", ""},
		{"the second begins where the first left slots", "2@a:2,b:2 2@a:2,b:2", Request{}, "a[0 1] b[2 3]", ""},
		{"one part of a host is used already", "1@a:2 3@a:2,b:2", Request{}, "a[0 1] b[2 3]", ""},
		{"more than is left wraps over all slots", "2@a:2 2@a:2", Request{}, "a[0 1 2 3]",
			"4 ranks on 2 slots: more than one rank per slot (a:4)"},
		{"a host has the most slots that it is given", "1@a 2@a:3", Request{}, "a[0 1 2]", ""},
		{"hosts without ranks are left out", "1@a,b 1@c", Request{}, "a[0] c[1]", ""},
		{"another user is another host", "1@x@a 1@a", Request{}, "a[0] a[1]", ""},
		{"enough slots, none to spare", "2@a:2 1@b", Request{NoOversubscribe: true}, "a[0 1] b[2]", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan := must.Get(Join(partsOf(t, tc.parts), tc.req))(t)
			var got []string
			for _, h := range plan.Hosts {
				var ranks []int
				for local, r := range h.Ranks {
					ranks = append(ranks, r.Rank)
					check.That(t, r.LocalRank == local,
						"rank %d is local rank %d on %s, want %d", r.Rank, r.LocalRank, h.Name, local)
				}
				got = append(got, fmt.Sprint(h.Name, ranks))
			}
			check.That(t, strings.Join(got, " ") == tc.want && strings.Join(plan.Warnings, "\n") == tc.warns,
				"got %v, %q; want %s, %q", got, plan.Warnings, tc.want, tc.warns)
			checkCross(t, plan)
		})
	}
}

// checkCross checks that the ranks with one local rank are numbered over the hosts.
func checkCross(t *testing.T, plan Plan) {
	t.Helper()
	seen := map[int]int{}
	ranks := 0
	for _, h := range plan.Hosts {
		for _, r := range h.Ranks {
			check.That(t, r.CrossRank == seen[r.LocalRank],
				"rank %d is number %d of local rank %d, want %d", r.Rank, r.CrossRank, r.LocalRank, seen[r.LocalRank])
			seen[r.LocalRank]++
			ranks++
		}
	}
	for _, h := range plan.Hosts {
		for _, r := range h.Ranks {
			check.Equal(t, r.CrossSize, seen[r.LocalRank], "rank", r.Rank, "is one of")
		}
	}
	check.That(t, ranks == plan.Size, "%d ranks in a plan of %d", ranks, plan.Size)
}

func partsOf(t *testing.T, text string) (parts []Part) {
	t.Helper()
	for field := range strings.FieldsSeq(text) {
		number, hosts, _ := strings.Cut(field, "@")
		var part Part
		list, err := hostfile.ParseList(hosts)
		if err == nil {
			part.Hosts, err = list.Hosts()
		}
		if _, scanErr := fmt.Sscan(number, &part.NP); err != nil || scanErr != nil {
			t.Fatal(err, scanErr)
		}
		parts = append(parts, part)
	}
	return parts
}

func TestJoinPlansRefuses(t *testing.T) {
	limited := []hostfile.Host{{Name: "a", Slots: 1, MaxSlots: 2}}
	for _, tc := range []struct {
		name  string
		parts []Part
		req   Request
		want  string
	}{
		{"no program", nil, Request{}, "no program"},
		{"slots that others have", partsOf(t, "2@a:2 1@a:2"), Request{NoOversubscribe: true},
			"the program of rank 2: 1 rank needs 1 slot, but the host has 0"},
		{"too few slots left", partsOf(t, "1@a:2 2@a:2"), Request{NoOversubscribe: true},
			"the program of ranks 1-2: 2 ranks need 2 slots, but the host has 1"},
		{"max_slots used up", []Part{{2, limited}, {1, limited}}, Request{},
			"the program of rank 2: 1 rank needs 1 max_slot, but the host has 0"},
		{"max_slots half used", []Part{{1, limited}, {2, limited}}, Request{},
			"the program of ranks 1-2: 2 ranks need 2 max_slots, but the host has 1"},
		{"no host", []Part{{NP: 1}}, Request{}, "the program of rank 0: there is no host"},
	} {
		_, err := Join(tc.parts, tc.req)
		var slots *SlotsError
		check.That(t, err != nil && strings.Contains(err.Error(), tc.want) &&
			strings.Contains(tc.want, "need") == errors.As(err, &slots), "%s: %v, want %q", tc.name, err, tc.want)
		if slots != nil && strings.Contains(slots.Hint(), "-np 0") {
			t.Errorf("%s: hint %q", tc.name, slots.Hint())
		}
	}
}
