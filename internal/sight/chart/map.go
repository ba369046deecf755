package chart

import (
	"fmt"
	"math"
)

// HeatMap is a table whose cells have a number on a colour.
type HeatMap struct {
	Text    string // description for screen readers
	Corner  string // unit of the numbers
	Rows    []string
	Columns []string
	Cells   []Cell
}

// Cell is a value of a HeatMap.
type Cell struct {
	Row, Column int
	Heat        float64 // 0 to 1; NaN: no value, drawn in the opposite colours
	Value       string  // a few characters
	Text        string  // tooltip
}

// largeMap is the number of columns from which cells are small.
const largeMap = 20

// HTML returns the map as a part of a page.
func (m HeatMap) HTML() HTML {
	cells := make([][]HTML, len(m.Rows))
	for i := range cells {
		cells[i] = make([]HTML, len(m.Columns))
		for j := range cells[i] {
			cells[i][j] = "<td></td>"
		}
	}
	for _, c := range m.Cells {
		class := HTML("none")
		if !math.IsNaN(c.Heat) {
			class = HTML(fmt.Sprintf("h%d", int(math.Round(min(max(c.Heat, 0), 1)*9))))
		}
		cells[c.Row][c.Column] = Format(`<td class="%s" title="%s">%s</td>`, class, c.Text, c.Value)
	}
	size := HTML("")
	if len(m.Columns) >= largeMap {
		size = " large"
	}
	head := Format("<tr><td>%s</td>", m.Corner)
	for _, name := range m.Columns {
		head += Format(`<th scope="col"><span>%s</span></th>`, clip(name, 14))
	}
	rows := make([]HTML, 0, len(m.Rows))
	for i, name := range m.Rows {
		rows = append(rows, Format(`<tr><th scope="row">%s</th>%s</tr>`+"\n", clip(name, 14), join(cells[i])))
	}
	return Format(`<div class="scroll whole" tabindex="0" role="region" aria-label="%s"><table class="map%s"><thead>%s</tr></thead><tbody>
%s</tbody></table></div>
`, m.Text, size, head, join(rows))
}

// clip shortens a name to n characters.
func clip(name string, n int) string {
	if letters := []rune(name); len(letters) > n {
		return string(letters[:n-1]) + "…"
	}
	return name
}
