package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/chart"
	"github.com/gorun/gorun/internal/sight/watch/record"
)

const (
	maxEvents = 1000 // events of a page
	together  = 1.0  // seconds within which ranks that end alike are one event
	maxRanges = 8    // ranges of ranks that an event names
)

// group is an event of several ranks.
type group struct {
	record.Event       // the first rank's
	ranks        []int // ranks that ended alike; none: the event is not about an end
	hosts        map[string]bool
}

// groups returns the run's events, at most maxEvents. Ranks that end alike at about the same time
// are one.
func (p page) groups() (all []group) {
	open := map[string]int{} // index of the last group of ranks that ended with a text
	for _, e := range p.Events {
		i, is := open[e.Text]
		switch ended := e.What == "exited"; {
		case ended && is && e.At.Sub(all[i].At).Seconds() < together:
			all[i].ranks = append(all[i].ranks, e.Rank)
			all[i].hosts[e.Host] = true
		case len(all) == maxEvents:
		case ended:
			open[e.Text] = len(all)
			all = append(all, group{e, []int{e.Rank}, map[string]bool{e.Host: true}})
		default:
			all = append(all, group{Event: e})
		}
	}
	return all
}

func (g group) text() string {
	switch g.What {
	case "exited":
		if len(g.ranks) == 1 {
			return fmt.Sprintf("rank %d on %s: %s", g.Rank, g.Host, g.Text)
		}
		return fmt.Sprintf("%d ranks on %s: %s: %s", len(g.ranks), prose.Count(len(g.hosts), "host"), g.Text,
			prose.Ranges(slices.Sorted(slices.Values(g.ranks)), maxRanges))
	case "stacks":
		return "the stacks of the ranks were taken: " + g.Text
	case "straggler":
		return g.Text
	case "lost":
		return fmt.Sprintf("host %s was lost: %s", g.Host, g.Text)
	}
	return strings.TrimSpace(g.What + " " + g.Text)
}

// seconds returns the time of an event since the start of the run.
func (p page) seconds(e record.Event) float64 { return e.At.Sub(p.Record.Run.Began).Seconds() }

// since formats the time of an event since the start of the run.
func (p page) since(e record.Event) string { return chart.Seconds(p.seconds(e)) }

func (p page) events() chart.HTML {
	var rows [][]string
	for _, g := range p.groups() {
		rows = append(rows, []string{p.since(g.Event), g.text()})
	}
	if len(rows) == maxEvents {
		rows = append(rows, []string{"", "later events are left out"})
	}
	return table("Events", "", []string{"time", "event"}, rows)
}
