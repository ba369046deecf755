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

// Summary formats the table of --summary: a line per rank, or in a job of more than 256 per kind of
// end, and one for the job. Waits are the parts of the time in which the other ranks waited for a
// rank, or nil if they are not known.
func Summary(plan launcher.Plan, r launcher.Result, waits map[int]float64) string {
	exits := map[int]launcher.Exit{}
	for _, e := range r.Exits {
		exits[e.Rank] = e
	}
	rows := lineByLine(plan, r, exits, waits)
	if len(rows) > ownLines+1 {
		rows = digest(plan, r, exits, waits)
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // a strings.Builder takes everything
	fmt.Fprintf(&b, "started in %s, ran %s, exit code %d\n", Seconds(r.Started), Seconds(max(0, r.Ended-r.Started)),
		r.Code())
	return b.String()
}

// lineByLine returns the table with a line for each rank.
func lineByLine(plan launcher.Plan, r launcher.Result, exits map[int]launcher.Exit, waits map[int]float64) [][]string {
	rows := [][]string{{"rank", "host", "ended", "time", "cpu", "peak memory"}}
	if waits != nil {
		rows[0] = append(rows[0], "waited for")
	}
	for _, h := range plan.Hosts {
		for _, rank := range h.Ranks {
			e, known := exits[rank.Rank]
			ran := "-"
			cpu := "-"
			memory := "-"
			if known {
				ran = Seconds(max(0, e.At-r.Started))
				if e.Failed == "" {
					cpu = Seconds(e.CPU)
					memory = prose.Size(e.MaxRSS)
				}
			}
			row := []string{fmt.Sprint(rank.Rank), h.Name, endedAs(e, known, rank.Rank, r), ran, cpu, memory}
			if waits != nil {
				row = append(row, fmt.Sprintf("%.0f %%", 100*waits[rank.Rank]))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// endedAs describes how a rank ended, and whether it made the job fail.
func endedAs(e launcher.Exit, known bool, rank int, r launcher.Result) string {
	ended := "not known"
	if known {
		ended = endOf(e)
	}
	if c := r.Cause; c != nil && c.Rank == rank {
		ended += ", the first to fail"
	}
	return ended
}

// endOf describes in a few words how a rank ended.
func endOf(e launcher.Exit) string {
	text := fmt.Sprintf("code %d", e.Code)
	switch {
	case e.Failed != "":
		text = "did not start"
	case e.Stopped:
		return e.StopText()
	case e.Signal != 0:
		text = signalText(e.Signal)
	}
	if e.OutOfMemory != "" {
		text += ", out of memory"
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
