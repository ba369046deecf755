// Package jobs shows and directs the user's running jobs from other processes than their gorun's.
package jobs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/control"
)

// leastWidth is the width of the narrowest terminal to which lines are cut.
const leastWidth = 40

// Own returns the user's jobs in the order of their start, with all also the newest most jobs that
// have ended, or all of them for 0. older is the number of those left out.
func Own(ctx context.Context, place control.Place, all bool, most int) (found []control.Found, older int, err error) {
	found, err = place.List(ctx, all)
	if err != nil {
		return nil, 0, fmt.Errorf("list your jobs: %w", err)
	}
	if most > 0 {
		found, older = newest(found, most)
	}
	return found, older, nil
}

// newest leaves out all but the newest most jobs that have ended.
func newest(found []control.Found, most int) (kept []control.Found, older int) {
	for _, f := range found {
		if f.Client == nil {
			older++
		}
	}
	older = max(0, older-most)
	left := older
	for _, f := range found {
		if f.Client == nil && left > 0 {
			left--
			continue
		}
		kept = append(kept, f)
	}
	return kept, older
}

// IDs prints the ids of jobs.
func IDs(found []control.Found, out io.Writer) error {
	for _, f := range found {
		if _, err := fmt.Fprintln(out, f.ID); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON prints jobs as one JSON object.
func WriteJSON(found []control.Found, out io.Writer) error {
	list := struct {
		Jobs []control.Job `json:"jobs"`
	}{[]control.Job{}}
	for _, f := range found {
		list.Jobs = append(list.Jobs, f.Job)
	}
	return ui.WriteJSON(out, list, "")
}

// List prints jobs, with columns for those that have ended with all, and says how many older ones
// it lacks. On a terminal it cuts lines to the terminal's width.
func List(found []control.Found, older int, all bool, out io.Writer, console *ui.UI) error {
	switch {
	case len(found) > 0:
	case all:
		console.Notef("no job of yours has run here within 7 days")
	default:
		console.Notef("no job of yours runs here; gorun ps -a lists those that have ended")
	}
	var text strings.Builder
	if err := ui.WriteColumns(&text, func(table io.Writer) {
		for _, row := range rows(found, all, time.Now()) {
			fmt.Fprintln(table, strings.Join(row, "\t"))
		}
	}); err != nil {
		return err
	}
	width := ui.Columns(out)
	for line := range strings.Lines(text.String()) {
		if line = strings.TrimSuffix(line, "\n"); width >= leastWidth {
			line = prose.Cut(line, width)
		}
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	if older > 0 {
		console.Notef("left out: %s; gorun ps --last 0 lists all", prose.Count(older, "older job"))
	}
	return nil
}

// rows returns a table of jobs with its heading. With all it has columns for jobs that have ended.
func rows(found []control.Found, all bool, now time.Time) [][]string {
	table := [][]string{{"job", "name", "state", "ranks", "hosts", "time", "program"}}
	if all {
		table = [][]string{{"job", "name", "state", "ranks", "hosts", "start", "time", "code", "program", "cause"}}
	}
	for _, f := range found {
		row := []string{f.ID, cmp.Or(f.Name, "-"), f.State, ranks(f.Job), hosts(f.Job)}
		program := cell(strings.Join(f.Program, " "), 40)
		if all {
			row = append(row, start(f.Job), elapsed(f.Job, now), code(f.Job), program, cell(f.Cause, 200))
		} else {
			row = append(row, elapsed(f.Job, now), program)
		}
		table = append(table, row)
	}
	return table
}

func start(j control.Job) string {
	if j.Began.IsZero() {
		return "-"
	}
	return j.Began.Local().Format("Jan _2 15:04")
}

func code(j control.Job) string {
	if j.Code == nil {
		return "-"
	}
	return strconv.Itoa(*j.Code)
}

// ranks returns the numbers of running and of all ranks, and of running spawned ranks: "7/8",
// "1/1+4".
func ranks(j control.Job) string {
	if j.State != control.Running || j.Elastic {
		return strconv.Itoa(j.Size)
	}
	run := j.Size
	spawned := j.Spawned
	for _, e := range j.Exits {
		if e.Rank < j.Size {
			run--
		} else {
			spawned--
		}
	}
	text := fmt.Sprintf("%d/%d", max(0, run), j.Size)
	if spawned > 0 {
		text += fmt.Sprintf("+%d", spawned)
	}
	return text
}

func hosts(j control.Job) string {
	var names []string
	for _, h := range j.Hosts {
		names = append(names, h.Host)
	}
	if len(names) > 3 {
		return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
	}
	return cmp.Or(strings.Join(names, ","), "-")
}

// elapsed returns the time since the start of a job, or between its start and end.
func elapsed(j control.Job, now time.Time) string {
	if j.Began.IsZero() || j.State == control.Unknown {
		return "-"
	}
	if !j.Ended.IsZero() {
		now = j.Ended
	}
	s := int(now.Sub(j.Began).Seconds())
	if s >= 24*3600 {
		return fmt.Sprintf("%dd %02d:%02d", s/(24*3600), s/3600%24, s/60%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// cell returns a text of a table, at most most characters of it.
func cell(text string, most int) string { return cmp.Or(prose.Cut(prose.Printable(text), most), "-") }
