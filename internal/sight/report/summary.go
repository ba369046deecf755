package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/sight/chart"
)

// standsOut is by how many points of percent a rank must spend less time in collectives than the
// median rank to count as the slowest.
const standsOut = 5

// cards returns what matters most about a run.
func (p page) cards() []chart.Card {
	run := p.Record.Run
	end := chart.Card{Name: "End", Value: fmt.Sprintf("exit code %d", run.Code), Bad: run.Code != 0}
	took := run.Ended.Sub(run.Began).Round(time.Second).String()
	if run.Ended.IsZero() {
		end.Value = "not recorded"
		end.Note = "the job runs, or its gorun was killed"
		if p.Live {
			end.Value = "running"
			end.Note = ""
		}
		took = chart.Seconds(p.data.end)
	}
	return []chart.Card{end, {Name: "Duration", Value: took}, {Name: "Ranks", Value: fmt.Sprint(run.Size)},
		{Name: "Hosts", Value: fmt.Sprint(p.hosts())}, p.collectives(), p.slowest(), p.peak()}
}

func (p page) hosts() int { return max(len(p.data.hosts), len(p.Record.Run.Places)) }

// collectives returns how much of their time ranks spent in collectives.
func (p page) collectives() chart.Card {
	c := chart.Card{Name: "In collectives", Value: "-"}
	var shares []float64
	for _, r := range p.data.rows {
		if !math.IsNaN(r.share) {
			shares = append(shares, r.share)
		}
	}
	if len(shares) > 0 {
		c.Value = chart.In("%").Format(mean(shares))
		c.Note = "of the ranks' time"
	}
	return c
}

// slowest returns the rank that the others wait for.
func (p page) slowest() chart.Card {
	c := chart.Card{Name: "Slowest rank", Value: "-"}
	for _, e := range slices.Backward(p.Events) {
		if e.What == "straggler" {
			c.Value = fmt.Sprintf("rank %d", e.Rank)
			c.Note = "the others waited for it"
			return c
		}
	}
	rows := slices.DeleteFunc(slices.Clone(p.data.rows), func(r rankRow) bool { return math.IsNaN(r.share) })
	if len(rows) < 2 {
		return c
	}
	slices.SortStableFunc(rows, func(a, b rankRow) int { return cmp.Compare(a.share, b.share) })
	least := rows[0]
	usual := rows[len(rows)/2].share
	c.Value = "none"
	c.Note = "all spend about the same time in collectives"
	if usual-least.share > standsOut {
		c.Value = fmt.Sprintf("rank %d", least.rank)
		c.Note = fmt.Sprintf("%s %% of its time in collectives, usual %s %%", chart.Number(math.Round(least.share)),
			chart.Number(math.Round(usual)))
	}
	return c
}

// peak returns the most memory that a rank had.
func (p page) peak() chart.Card {
	c := chart.Card{Name: "Peak memory", Value: "-"}
	most := 0.0
	for _, r := range p.data.rows {
		if r.memory > most {
			most = r.memory
			c.Value = chart.Bytes("").Format(most)
			c.Note = fmt.Sprintf("of rank %d", r.rank)
		}
	}
	return c
}

func (p page) summary() chart.HTML {
	run := p.Record.Run
	item := func(name, value string) chart.HTML { return chart.Format("<dt>%s</dt><dd>%s</dd>", name, value) }
	return chart.Cards(p.cards()) + `<dl class="facts">` + item("Program", strings.Join(run.Program, " ")) +
		item("Began", run.Began.Format(time.RFC1123)) + "</dl>\n"
}
