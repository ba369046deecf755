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

// List prints the user's jobs, also those that have ended with all.
func List(ctx context.Context, place control.Place, all, asJSON bool, out io.Writer, console *ui.UI) error {
	found, err := place.List(ctx, all)
	if err != nil {
		return fmt.Errorf("list your jobs: %w", err)
	}
	if asJSON {
		list := struct {
			Jobs []control.Job `json:"jobs"`
		}{[]control.Job{}}
		for _, f := range found {
			list.Jobs = append(list.Jobs, f.Job)
		}
		return ui.WriteJSON(out, list, "")
	}
	switch {
	case len(found) > 0:
	case all:
		console.Notef("no job of yours has run here within 7 days")
	default:
		console.Notef("no job of yours runs here; gorun ps -a lists those that have ended")
	}
	return ui.WriteColumns(out, func(table io.Writer) {
		fmt.Fprint(table, "job\tname\tstate\tranks\thosts\ttime\tprogram")
		if all {
			fmt.Fprint(table, "\tcode\tcause")
		}
		fmt.Fprintln(table)
		for _, f := range found {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s", f.ID, cmp.Or(f.Name, "-"), f.State, ranks(f.Job),
				hosts(f.Job), elapsed(f.Job, time.Now()),
				shortened(strings.Join(f.Program, " "), 40))
			if all {
				code := "-"
				if f.Code != nil {
					code = strconv.Itoa(*f.Code)
				}
				fmt.Fprintf(table, "\t%s\t%s", code, cmp.Or(f.Cause, "-"))
			}
			fmt.Fprintln(table)
		}
	})
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

func shortened(text string, most int) string {
	if all := []rune(prose.Printable(text)); len(all) > most {
		return string(all[:most-3]) + "..."
	}
	return cmp.Or(prose.Printable(text), "-")
}
