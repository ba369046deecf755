package stacks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/recorder"
)

// maxLines bounds the lines of a report without a limit, which becomes a file: those of a tree are
// as many as hosts tell of functions, each indented by its depth.
const maxLines = 1 << 16

// View selects the format of reports.
type View struct {
	Size  int  // ranks of the job
	Lines int  // maximum of lines; 0: no limit
	All   bool // whether all threads are shown
}

// Text formats the reports: the ranks' waits, then the tree of stacks with outliers first.
func (v View) Text(ranks []Rank) string {
	slices.SortFunc(ranks, func(a, b Rank) int { return a.Rank - b.Rank })
	head := slices.Concat(v.waits(ranks), rasLines(ranks), noFlights(ranks), notes(ranks))
	if len(head) > 0 {
		head = append(head, "")
	}
	root := grow(ranks, v.All)
	var d drawing
	for _, l := range []limits{{1 << 20, 1 << 20}, {12, 12}, {8, 8}, {6, 6}, {5, 4}, {4, 3}, {3, 2}} {
		d = drawing{limits: l}
		d.draw(root, "")
		if v.Lines == 0 || len(head)+len(d.lines) <= v.Lines {
			break
		}
	}
	lines := append(head, d.lines...)
	if len(lines) > maxLines {
		lines = append(lines[:maxLines-1], "... more than the lines of a report")
	}
	if v.Lines > 0 && len(lines) > v.Lines {
		lines = append(lines[:v.Lines-1], "... more: gorun stacks --full")
	}
	return plain(lines) + "\n"
}

// plain joins lines. What hosts have put into one does not begin another.
func plain(lines []string) string {
	oneLine := strings.NewReplacer("\n", "?", "\t", "?")
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = prose.Plain(oneLine.Replace(line))
	}
	return strings.Join(out, "\n")
}

// Alone formats the report of one rank: its last call of ring, and its stacks.
func Alone(r Rank, lines int) string {
	var head []string
	if r.Flight != nil && r.Record == nil {
		head = append(head, lastFlight(r.Flight))
	}
	if r.Record != nil {
		last := lastCall(&r)
		if c := latest(&r); c != nil && c.Over {
			// lines may be cut
			last = fmt.Sprintf("its last call ended %s ago: %s", ago(c.Began-c.Took), Describe(*c))
		}
		head = append(head, last)
		if n := len(r.Record.Tensors); n > 0 {
			head = append(head, fmt.Sprintf("it waits for %s, for %s", Describe(r.Record.Tensors[0]),
				ago(r.Record.Tensors[0].Began)))
		}
	}
	text := View{Lines: max(1, lines-len(head))}.Text([]Rank{r})
	if len(head) == 0 {
		return text
	}
	return plain(head) + "\n" + text
}

// maxWaits bounds the collectives in a text.
const maxWaits = 6

// waits formats which ranks wait for which, and the last calls of the missing ranks.
func (v View) waits(ranks []Rank) (lines []string) {
	all := Waits(ranks, v.Size)
	shown := map[int]bool{}
	for _, w := range all[:min(len(all), maxWaits)] {
		verb := "have"
		if len(w.Missing) == 1 {
			verb = "has"
		}
		what := "not come to " + Describe(w.Call)
		switch {
		case w.Init:
			what = "not joined the job"
		case w.Differ != "":
			what = fmt.Sprintf("called %s, others %s", w.Differ, w.NCCL)
		case w.NCCL != "":
			what = "not come to " + w.NCCL
		}
		lines = append(lines, fmt.Sprintf("%s %s %s: %s %s", Names(w.Missing), verb, what, Names(w.Waiting),
			waitFor(w)))
		for _, missing := range w.Missing[:min(len(w.Missing), 4)] {
			if shown[missing] {
				continue
			}
			shown[missing] = true
			i := slices.IndexFunc(ranks, func(r Rank) bool { return r.Rank == missing })
			lines = append(lines, "  "+whereabouts(&ranks[i]))
		}
	}
	if more := len(all) - maxWaits; more > 0 {
		lines = append(lines, fmt.Sprintf("and %s more for which ranks wait", prose.Count(more, "collective")))
	}
	return lines
}

func waitFor(w Wait) string {
	verb := "have"
	if len(w.Waiting) == 1 {
		verb = "has"
	}
	return fmt.Sprintf("%s waited for %s", verb, ago(w.Longest))
}

// whereabouts describes a rank's host and last call.
func whereabouts(r *Rank) string {
	text := fmt.Sprintf("rank %d on %s", r.Rank, r.Host)
	if len(r.Processes) > 0 {
		text += fmt.Sprintf(", pid %d", r.Processes[0].PID)
	}
	return text + ": " + lastCall(r)
}

// lastCall describes the last call of a rank, which may be in progress.
func lastCall(r *Rank) string {
	if r.Flight != nil && (r.Record == nil || latest(r) == nil) {
		return lastFlight(r.Flight)
	}
	if r.Record == nil {
		return "it has not called Init"
	}
	last := latest(r)
	switch {
	case last == nil:
		return "it has made no call"
	case !last.Over:
		return fmt.Sprintf("it is in %s, for %s", Describe(*last), ago(last.Took))
	}
	return fmt.Sprintf("its last was %s, which ended %s ago", Describe(*last), ago(last.Began-last.Took))
}

// latest returns the last call of a rank that has a record, or nil.
func latest(r *Rank) (last *recorder.Call) {
	for i := range r.Record.Comms {
		calls := r.Record.Comms[i].Calls
		if n := len(calls); n > 0 && (last == nil || calls[n-1].Began < last.Began) {
			last = &calls[n-1]
		}
	}
	return last
}

// Describe names a call: kind, tensor, number, size.
func Describe(c recorder.Call) string {
	text := recorder.KindName(c.Kind)
	if c.Name != "" {
		text += fmt.Sprintf(" of %q", c.Name)
	}
	if c.More > 0 {
		text += " and " + prose.Count(c.More, "other")
	}
	if c.Number > 0 {
		text += fmt.Sprintf(", call %d", c.Number)
	}
	if c.Bytes > 0 {
		text += ", " + size(c.Bytes)
	}
	return text
}

func size(bytes uint64) string {
	switch {
	case bytes < 10<<10:
		return prose.Count(int(bytes), "byte")
	case bytes < 10<<20:
		return fmt.Sprintf("%d KiB", bytes>>10)
	}
	return fmt.Sprintf("%d MiB", bytes>>20)
}

func ago(d time.Duration) string {
	switch {
	case d <= 0:
		return "an unknown time"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// notes lists the ranks without stacks, once for each reason, and how to get them.
func notes(ranks []Rank) (lines []string) {
	var reasons, hints []string
	by := map[string][]int{}
	hinted := map[string][]int{}
	for _, r := range ranks {
		for _, p := range r.Processes {
			if p.Hint != "" && hinted[p.Hint] == nil {
				hints = append(hints, p.Hint)
			}
			if p.Hint != "" && !slices.Contains(hinted[p.Hint], r.Rank) {
				hinted[p.Hint] = append(hinted[p.Hint], r.Rank)
			}
			if p.Unknown == "" || len(p.Threads) > 0 || p.hasChild(r.Processes) {
				continue
			}
			if by[p.Unknown] == nil {
				reasons = append(reasons, p.Unknown)
			}
			if !slices.Contains(by[p.Unknown], r.Rank) {
				by[p.Unknown] = append(by[p.Unknown], r.Rank)
			}
		}
	}
	for _, reason := range reasons[:min(len(reasons), 4)] {
		lines = append(lines, fmt.Sprintf("no stacks of %s: %s", Names(by[reason]), reason))
	}
	for _, hint := range hints[:min(len(hints), 2)] {
		lines = append(lines, fmt.Sprintf("hint for %s: %s", Names(hinted[hint]), hint))
	}
	return lines
}

// Names formats ranks: "rank 3", "7 ranks (0-2,4-7)".
func Names(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d", ranks[0])
	}
	return fmt.Sprintf("%d ranks (%s)", len(ranks), prose.Ranges(ranks, 8))
}
