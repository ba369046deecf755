package stacks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/flight"
	"github.com/gorun/gorun/internal/sight/ras"
)

// member is a rank's view of a process group of PyTorch.
type member struct {
	rank   int
	group  *flight.Group
	oldest *flight.Call // the oldest collective that has not ended; nil: all have
}

// groupCall is a collective of a process group.
type groupCall struct {
	group  string
	number int64
}

// flights finds collectives of PyTorch's process groups that some ranks have enqueued and wait for,
// and others have not enqueued. A GPU runs them later, so a rank waits in the oldest that has not
// ended.
func flights(ranks []Rank) (waits []Wait) {
	groups := map[string][]member{}
	all := map[groupCall]*Wait{}
	for i := range ranks {
		if ranks[i].Flight == nil {
			continue
		}
		for j := range ranks[i].Flight.Groups {
			g := &ranks[i].Flight.Groups[j]
			key := g.Name + "\x00" + g.Ranks // groups of different ranks may have the same name
			members := groups[key]
			if n := len(members); n > 0 && members[n-1].rank == ranks[i].Rank {
				continue // a rank is in a group once
			}
			m := member{ranks[i].Rank, g, g.Oldest()}
			groups[key] = append(members, m)
			if m.oldest == nil {
				continue
			}
			at := groupCall{key, m.oldest.Number}
			if all[at] == nil {
				all[at] = &Wait{}
			}
			all[at].Longest = max(all[at].Longest, m.oldest.Began)
		}
	}
	for _, at := range oldest(all, func(a, b groupCall) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.number, b.number))
	}) {
		if w := all[at]; w.complete(groups[at.group], at.number) {
			waits = append(waits, *w)
		}
	}
	return waits
}

// complete completes the wait for a collective by all members that reported its group. It reports
// whether a rank is missing.
func (w *Wait) complete(members []member, number int64) bool {
	kinds := map[string][]int{}
	name := ""
	for _, m := range members {
		switch {
		case m.oldest != nil && m.oldest.Number == number:
			kinds[call(m.oldest)] = append(kinds[call(m.oldest)], m.rank)
			w.Waiting = append(w.Waiting, m.rank)
			name = cmp.Or(name, title(m.group))
		case m.group.Last < number:
			w.Missing = append(w.Missing, m.rank)
		}
	}
	most := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(kinds[b]), len(kinds[a])), cmp.Compare(kinds[a][0], kinds[b][0]))
	})
	w.NCCL = fmt.Sprintf("%s, call %d of process group %s", most[0], number, name)
	if len(w.Missing) > 0 {
		return true
	}
	if len(most) > 1 { // some ranks are in another call
		w.Differ = fmt.Sprintf("%s as call %d", most[len(most)-1], number)
		w.Missing = kinds[most[len(most)-1]]
		w.Waiting = kinds[most[0]]
		return true
	}
	return false
}

// call names a collective: "all_reduce of 1024 Float by nccl".
func call(c *flight.Call) string {
	library, kind, found := strings.Cut(c.Kind, ":")
	if !found {
		return c.Kind
	}
	if c.Shape != "" {
		kind += " of " + c.Shape
	}
	return kind + " by " + library
}

func title(g *flight.Group) string {
	if g.Desc != "" && g.Desc != "undefined" {
		return g.Desc
	}
	return g.Name
}

// lastFlight describes the PyTorch collective that a rank enqueued last, and where, or returns "".
func lastFlight(d *flight.Dump) string {
	var group *flight.Group
	var last *flight.Call
	for i := range d.Groups {
		g := &d.Groups[i]
		if c := g.Call(g.Last); c != nil && (last == nil || c.Began < last.Began) {
			group = g
			last = c
		}
	}
	if last == nil {
		return "it has enqueued no collective"
	}
	text := fmt.Sprintf("its last was %s, call %d of %s, enqueued %s ago and %s", call(last), last.Number, title(group),
		ago(last.Began), last.State)
	if last.Where != "" {
		text += ", in " + last.Where
	}
	return text
}

// Bounds on the lines about NCCL's own view.
const maxRASLines = 6

// rasLines describes the ranks that NCCL's RAS service finds behind, failed or missing.
func rasLines(ranks []Rank) (lines []string) {
	for i := range ranks {
		s := ranks[i].RAS
		if s == nil {
			continue
		}
		for _, c := range s.Comms {
			lines = append(lines, commLines(&c, ranks)...)
		}
		for _, line := range s.Lines {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	if more := len(lines) - maxRASLines; more > 0 {
		lines = append(lines[:maxRASLines], prose.Count(more, "more line")+" of NCCL RAS: gorun stacks --json")
	}
	for i := range lines {
		lines[i] = "NCCL RAS: " + lines[i]
	}
	return lines
}

// maxOdd bounds the irregularities of a communicator that are told apart.
const maxOdd = 1 << 10

// commLines describes the irregularities of one communicator.
func commLines(c *ras.Comm, ranks []Rank) (lines []string) {
	name := numbers(ranks)
	odd := map[string][]int{}
	most := map[string]uint64{}
	for i := range c.Ranks {
		for kind, n := range c.Ranks[i].Counts {
			most[kind] = max(most[kind], n)
		}
	}
	add := func(text string, r *ras.Rank) {
		if odd[text] != nil || len(odd) < maxOdd {
			odd[text] = append(odd[text], name(r))
		}
	}
	for i := range c.Ranks {
		r := &c.Ranks[i]
		for kind, n := range r.Counts {
			if n < most[kind] {
				add(fmt.Sprintf("launched %s of %s, others %d", prose.Count(int(min(n, 1<<40)), "collective"), kind,
					most[kind]), r)
			}
		}
		if r.Status.Abort {
			add("aborted the communicator", r)
		} else if r.Status.AsyncError != 0 {
			add(fmt.Sprintf("met error %d", r.Status.AsyncError), r)
		}
	}
	for i := range c.Missing {
		text := "not answered"
		if c.Missing[i].Status.Dead {
			text = "not answered: NCCL takes it for dead"
		}
		add(text, &c.Missing[i])
	}
	for _, text := range slices.SortedFunc(maps.Keys(odd), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(odd[a]), len(odd[b])), cmp.Compare(a, b))
	}) {
		slices.Sort(odd[text])
		verb := "have"
		if len(odd[text]) == 1 {
			verb = "has"
		}
		lines = append(lines, fmt.Sprintf("%s of a communicator of %d %s %s", Names(odd[text]), c.Size, verb, text))
	}
	return lines
}

// numbers returns a function that numbers a communicator's members as the job does, by their
// process ids, and by the communicator where those of two hosts are the same.
func numbers(ranks []Rank) func(*ras.Rank) int {
	owners := map[int][]int{}
	for _, r := range ranks {
		for _, p := range r.Processes {
			owners[p.PID] = append(owners[p.PID], r.Rank)
		}
	}
	return func(r *ras.Rank) int {
		if own := owners[r.PID]; len(own) == 1 {
			return own[0]
		}
		return r.Rank
	}
}

// noFlights lists the flight recorders that did not answer, once for each reason.
func noFlights(ranks []Rank) (lines []string) {
	by := map[string][]int{}
	for _, r := range ranks {
		if r.NoFlight != "" {
			by[r.NoFlight] = append(by[r.NoFlight], r.Rank)
		}
	}
	for i, why := range slices.Sorted(maps.Keys(by)) {
		if i == 3 {
			break
		}
		lines = append(lines, fmt.Sprintf("PyTorch's flight recorder of %s did not answer: %s", Names(by[why]), why))
	}
	return lines
}
