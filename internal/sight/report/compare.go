package report

import (
	"cmp"
	"io"
	"strings"

	"github.com/gorun/gorun/internal/sight/chart"
)

// compare writes a page about several runs: a column for each, and a line in each chart.
func compare(w io.Writer, runs []Run) error {
	var pages []page
	columns := []string{""}
	var names []string
	for _, r := range runs {
		p := newPage(r)
		pages = append(pages, p)
		names = append(names, p.label())
	}
	columns = append(columns, names...)
	all, err := charts(pages)
	if err != nil {
		return err
	}
	body := []chart.HTML{chart.Section("Runs", "", chart.Table("Runs", columns, facts(pages))), all}
	_, err = io.WriteString(w, string(chart.Page("gorun: "+strings.Join(names, ", "), body...)))
	return err
}

func (p page) label() string { return cmp.Or(p.Name, p.name(), "run") }

// facts returns a row for each card, with a column for each run.
func facts(pages []page) (rows [][]string) {
	for i, p := range pages {
		for n, c := range append(p.cards(), chart.Card{Name: "Program", Value: strings.Join(p.Record.Run.Program, " ")},
			chart.Card{Name: "Cause of the end", Value: p.Record.Run.Cause}) {
			if i == 0 {
				rows = append(rows, []string{c.Name})
			}
			value := c.Value
			if c.Note != "" {
				value += ", " + c.Note
			}
			rows[n] = append(rows[n], value)
		}
	}
	return rows
}
