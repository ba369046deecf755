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

// Summary formats the table of --summary: a line per rank and one for the job.
func Summary(plan launcher.Plan, r launcher.Result) string {
	exits := map[int]launcher.Exit{}
	for _, e := range r.Exits {
		exits[e.Rank] = e
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "rank\thost\tended\ttime\tcpu\tpeak memory\n")
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
			fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\n", rank.Rank, h.Name, ended, ran, cpu, memory)
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
