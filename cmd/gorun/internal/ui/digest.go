package ui

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher"
)

// ownLines bounds the ranks that have a line each in a summary.
const ownLines = 256

// likeness is a group of ranks that ended alike.
type likeness struct {
	ended                   string
	ranks                   []int
	hosts                   map[string]bool
	least, most, cpu        time.Duration
	last, busiest, greatest int // rank
	memory                  int64
	waits                   float64 // the largest part of the time in which others waited for a rank
	awaited                 int     // the rank most waited for
	known                   bool    // whether times and memory are known
}

// digest formats the table of a job of many ranks: a line for the ranks that ended alike, the
// largest group first.
func digest(plan launcher.Plan, r launcher.Result, exits map[int]launcher.Exit, waits map[int]float64) [][]string {
	groups := map[string]*likeness{}
	for _, h := range plan.Hosts {
		for _, rank := range h.Ranks {
			e, known := exits[rank.Rank]
			ended := endedAs(e, known, rank.Rank, r)
			g := groups[ended]
			if g == nil {
				g = &likeness{ended: ended, hosts: map[string]bool{}, least: time.Duration(1<<63 - 1)}
				groups[ended] = g
			}
			g.ranks = append(g.ranks, rank.Rank)
			g.hosts[h.Name] = true
			if w := waits[rank.Rank]; w > g.waits || len(g.ranks) == 1 {
				g.waits = w
				g.awaited = rank.Rank
			}
			if known && e.Failed == "" {
				g.add(e, max(0, e.At-r.Started))
			}
		}
	}
	var list []*likeness
	for _, g := range groups {
		list = append(list, g)
	}
	slices.SortFunc(list, func(a, b *likeness) int {
		return cmp.Or(cmp.Compare(len(b.ranks), len(a.ranks)), cmp.Compare(a.ended, b.ended))
	})
	rows := [][]string{{"ranks", "hosts", "ended", "time", "most cpu", "peak memory"}}
	for _, g := range list {
		row := g.row()
		if waits != nil {
			row = append(row, fmt.Sprintf("%.0f %%", 100*g.waits)+g.by(g.awaited))
		}
		rows = append(rows, row)
	}
	if waits != nil {
		rows[0] = append(rows[0], "most waited for")
	}
	return rows
}

func (g *likeness) add(e launcher.Exit, ran time.Duration) {
	if !g.known || ran > g.most {
		g.most = ran
		g.last = e.Rank
	}
	if !g.known || e.CPU > g.cpu {
		g.cpu = e.CPU
		g.busiest = e.Rank
	}
	if !g.known || e.MaxRSS > g.memory {
		g.memory = e.MaxRSS
		g.greatest = e.Rank
	}
	g.least = min(g.least, ran)
	g.known = true
}

// row formats a group. Where ranks differ, it names the one with the largest value.
func (g *likeness) row() []string {
	where := prose.Count(len(g.hosts), "host")
	if len(g.hosts) == 1 {
		for name := range g.hosts {
			where = name
		}
	}
	ranks := prose.Ranges(slices.Sorted(slices.Values(g.ranks)), 4)
	row := []string{fmt.Sprintf("%d: %s", len(g.ranks), ranks), where, g.ended, "-", "-", "-"}
	if len(g.ranks) == 1 {
		row[0] = fmt.Sprint(g.ranks[0])
	}
	if !g.known {
		return row
	}
	row[3] = Seconds(g.most) + g.by(g.last)
	if least := Seconds(g.least); least != Seconds(g.most) {
		row[3] = least + " to " + row[3]
	}
	row[4] = Seconds(g.cpu) + g.by(g.busiest)
	row[5] = prose.Size(g.memory) + g.by(g.greatest)
	return row
}

// by names the rank with an extreme value of the group.
func (g *likeness) by(rank int) string {
	if len(g.ranks) == 1 {
		return ""
	}
	return fmt.Sprintf(" (rank %d)", rank)
}
