package jobs

import (
	"slices"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/test/check"
)

func TestRowsOfJobs(t *testing.T) {
	began := time.Date(2026, 11, 8, 9, 5, 59, 0, time.Local)
	failed := 137
	hosts := []control.Host{{Host: "f1", Ranks: []int{0, 1}}, {Host: "f2", Ranks: []int{2}}}
	program := []string{"python", "a\tb.py", "--long", "0123456789", "0123456789", "0123456789"}
	run := control.Job{
		ID:      "a2bc",
		State:   control.Running,
		Size:    3,
		Hosts:   hosts,
		Began:   began,
		Program: program,
	}
	run.Exits = []control.Exit{{Rank: 1}}
	over := run
	over.Name = "train"
	over.State = control.Ended
	over.Ended = began.Add(time.Hour)
	over.Code = &failed
	over.Cause = "rank 2 on f2 was killed\nby signal 9"
	lost := control.Job{ID: "d3ef", State: control.Unknown}
	all := []control.Found{{Job: run}, {Job: over}, {Job: lost}}
	shown := "python a?b.py --long 0123456789 01234..."
	for _, tt := range []struct {
		all  bool
		want [][]string
	}{
		{false, [][]string{
			{"job", "name", "state", "ranks", "hosts", "time", "program"},
			{"a2bc", "-", "running", "2/3", "f1,f2", "0:01:01", shown},
			{"a2bc", "train", "ended", "3", "f1,f2", "1:00:00", shown},
			{"d3ef", "-", "unknown", "0", "-", "-", "-"},
		}},
		{true, [][]string{
			{"job", "name", "state", "ranks", "hosts", "start", "time", "code", "program", "cause"},
			{"a2bc", "-", "running", "2/3", "f1,f2", "Nov  8 09:05", "0:01:01", "-", shown, "-"},
			{"a2bc", "train", "ended", "3", "f1,f2", "Nov  8 09:05", "1:00:00", "137", shown,
				"rank 2 on f2 was killed; by signal 9"},
			{"d3ef", "-", "unknown", "0", "-", "-", "-", "-", "-", "-"},
		}},
	} {
		got := rows(all, tt.all, began.Add(61*time.Second))
		check.That(t, slices.EqualFunc(got, tt.want, slices.Equal), "got  %q\nwant %q", got, tt.want)
	}
}

func TestNewestJobsAreListed(t *testing.T) {
	var all []control.Found
	for _, id := range []string{"a", "b", "c", "d"} {
		all = append(all, control.Found{Job: control.Job{ID: id}})
	}
	all[1].Client = &control.Client{} // it runs
	for _, tc := range []struct {
		most  int
		want  string
		older int
	}{{3, "abcd", 0}, {2, "bcd", 1}, {1, "bd", 2}} {
		kept, older := newest(all, tc.most)
		ids := ""
		for _, f := range kept {
			ids += f.ID
		}
		check.Equal(t, ids, tc.want)
		check.Equal(t, older, tc.older)
	}
}
