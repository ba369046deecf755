package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestProgramsForAHost(t *testing.T) {
	programs := []Program{{Argv: []string{"a"}, Ranks: 1}, {Argv: []string{"b"}, Ranks: 2, DropHere: []string{"X"}},
		{Argv: []string{"c"}, Ranks: 3}}
	for _, tc := range []struct {
		ranks []int
		want  string // the programs the host is told of, and the index of each rank's
	}{
		{[]int{0, 1, 2, 3, 4, 5}, "a b c [0 1 1 2 2 2]"},
		{[]int{1, 2}, "b [0 0]"},
		{[]int{0, 5}, "a c [0 1]"},
		{[]int{2, 3}, "b c [0 1]"},
		{[]int{5}, "c [0]"},
	} {
		var ranks []Rank
		for _, r := range tc.ranks {
			ranks = append(ranks, Rank{Rank: r})
		}
		told, placed := ProgramsFor(ranks, programs, false)
		var names []string
		for _, p := range told {
			names = append(names, string(p.Argv[0]))
		}
		var indexes []int
		for i, r := range placed {
			indexes = append(indexes, r.Program)
			if got := ProgramOf(r.Rank, programs).Argv[0]; r.Rank != tc.ranks[i] || got != names[r.Program] {
				t.Errorf("rank %d runs %s, and by itself %s", r.Rank, names[r.Program], got)
			}
		}
		check.Equal(t, fmt.Sprint(strings.Join(names, " "), " ", indexes), tc.want, "ranks", tc.ranks)
	}
	told, _ := ProgramsFor([]Rank{{Rank: 1}}, programs, true)
	check.That(t, len(told[0].Drop) == 1, "ranks on this machine inherit what is hidden from them")
	told, _ = ProgramsFor([]Rank{{Rank: 1}}, programs, false)
	check.That(t, len(told[0].Drop) == 0, "another machine's own variables are hidden")
}

func TestProgramsMustFitThePlan(t *testing.T) {
	for _, tc := range []struct {
		ranks []int
		size  int
		want  string
	}{
		{[]int{4}, 4, ""},
		{[]int{1, 3}, 4, ""},
		{[]int{1, 2}, 4, "for 3 ranks, and the plan is for 4"},
		{nil, 1, "for 0 ranks"},
		{[]int{2, 0}, 2, "by 0 ranks"},
	} {
		var programs []Program
		for _, n := range tc.ranks {
			programs = append(programs, Program{Ranks: n})
		}
		err := Plan{Size: tc.size}.CheckPrograms(programs)
		check.That(t, (err == nil) == (tc.want == "") && (err == nil || strings.Contains(err.Error(), tc.want)),
			"%v of %d: %v, want %q", tc.ranks, tc.size, err, tc.want)
	}
}
