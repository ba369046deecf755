package ui

import (
	"fmt"
	"strings"
	"syscall"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher"
)

// Summary formats the table of --summary: a line per rank and one for the job. Waits are the parts of the time in which the other ranks waited
// for a rank, or nil if they are not known.
func Summary(plan launcher.Plan, r launcher.Result, waits map[int]float64) string {
	exits := map[int]launcher.Exit{}
	for _, e := range r.Exits {
		exits[e.Rank] = e
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	heading, others := "", func(int) string { return "" }
	if waits != nil {
		heading, others = "\twaited for", func(rank int) string { return fmt.Sprintf("\t%.0f %%", 100*waits[rank]) }
	}
	fmt.Fprintf(table, "rank\thost\tended\ttime\tcpu\tpeak memory%s\n", heading)
	for _, h := range plan.Hosts {
		for _, rank := range h.Ranks {
			ended, ran, cpu, memory := "not known", "-", "-", "-"
			if e, known := exits[rank.Rank]; known {
				ended, ran = endOf(e), Seconds(max(0, e.At-r.Started))
				if e.Failed == "" {
					cpu, memory = Seconds(e.CPU), prose.Size(e.MaxRSS)
				}
			}
			if c := r.Cause; c != nil && c.Rank == rank.Rank {
				ended += ", the first to fail"
			}
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s%s\n", rank.Rank, h.Name, ended, ran, cpu, memory, others(rank.Rank))
		}
	}
	_ = table.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&b, "started in %s, ran %s, exit code %d\n", Seconds(r.Started), Seconds(max(0, r.Ended-r.Started)), r.Code())
	return b.String()
}

// endOf describes in a few words how a rank ended.
func endOf(e launcher.Exit) string {
	text := fmt.Sprintf("code %d", e.Code)
	switch {
	case e.Failed != "":
		text = "did not start"
	case e.Signal != 0:
		text = signalText(e.Signal)
	}
	if e.OutOfMemory != "" {
		text += ", out of memory"
	}
	if e.Stopped {
		text += ", stopped by gorun"
	}
	return text
}

// signalText returns the name of a signal, or its number.
func signalText(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}
