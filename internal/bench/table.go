package bench

import (
	"fmt"
	"io"
	"strings"
)

// Table writes rows as they come, the out-of-place and the in-place row of a size
// on one line, in the columns of nccl-tests. Percentiles and Wire add columns to both.
type Table struct {
	Percentiles bool
	Wire        bool

	w       io.Writer
	begun   bool
	pending *Row // out-of-place row without its in-place row yet
	wrong   int
	busBW   float64 // sum over rows
	rows    int
}

// The columns that every line begins with. A title takes two places less than its column, for the #
// before it.
const (
	head     = "%12s  %12s  %8s  %6s  %6s"
	headText = "# %10s  %12s  %8s  %6s  %6s"
)

// column is one of a form's: its title, its unit and its width.
type column struct {
	title, unit string
	width       int
	value       func(r *Row) string
}

// columns returns those of each form.
func (t *Table) columns() []column {
	all := []column{
		{"time", "(us)", 7, func(r *Row) string { return number(r.Time, 7) }},
		{"algbw", "(GB/s)", 6, func(r *Row) string { return number(r.AlgBW, 6) }},
		{"busbw", "(GB/s)", 6, func(r *Row) string { return number(r.BusBW, 6) }},
		{"#wrong", "", 6, func(r *Row) string { return fmt.Sprintf("%g", float64(r.Wrong)) }},
	}
	if t.Percentiles {
		all = append(all,
			column{"p50", "(us)", 7, func(r *Row) string { return number(r.Median, 7) }},
			column{"p99", "(us)", 7, func(r *Row) string { return number(r.P99, 7) }},
			column{"max", "(us)", 7, func(r *Row) string { return number(r.Max, 7) }})
	}
	if t.Wire {
		all = append(all,
			column{"wire", "(GB/s)", 6, func(r *Row) string { return number(r.WireBW, 6) }},
			column{"/wire", "", 6, func(r *Row) string { return number(r.WireShare, 6) }})
	}
	return all
}

// NewTable returns a Table on w.
func NewTable(w io.Writer) *Table { return &Table{w: w} }

// Add writes row, or keeps it until its other half comes. [Table.Finish] writes what is
// kept.
func (t *Table) Add(row Row) error {
	if err := t.begin(row); err != nil {
		return err
	}
	t.wrong += row.Wrong
	t.busBW += row.BusBW
	t.rows++
	if row.InPlace {
		left := t.pending
		t.pending = nil
		return t.line(left, &row)
	}
	if err := t.flush(); err != nil {
		return err
	}
	t.pending = &row
	if c, known := find(row.Collective); known && !c.inPlace {
		return t.flush()
	}
	return nil
}

// flush writes a row that lacks its other half.
func (t *Table) flush() error {
	if t.pending == nil {
		return nil
	}
	left := t.pending
	t.pending = nil
	return t.line(left, nil)
}

// Finish writes what is left, and the last lines.
func (t *Table) Finish() error {
	if err := t.flush(); err != nil || t.rows == 0 {
		return err
	}
	verdict := "OK"
	if t.wrong > 0 {
		verdict = "FAILED"
	}
	_, err := fmt.Fprintf(t.w, "# %-20s : %d %s\n# %-20s : %g\n#\n", "Out of bounds values", t.wrong, verdict,
		"Avg bus bandwidth", t.busBW/float64(t.rows))
	return err
}

// begin writes the lines before the first row.
func (t *Table) begin(row Row) error {
	if t.begun {
		return nil
	}
	t.begun = true
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, %d ranks; time: average of all calls and ranks", row.Collective, row.Ranks)
	if t.Percentiles {
		b.WriteString("; p50, p99, max: of the slowest rank")
	}
	if t.Wire {
		b.WriteString("; wire: one plain TCP connection, as many bytes both ways; /wire: bus bandwidth of p50 by that")
	}
	if row.Device != "" {
		fmt.Fprintf(&b, "; memory of GPUs, by %s", row.Device)
	}
	var titles, units string
	for _, c := range t.columns() {
		titles += fmt.Sprintf("  %*s", c.width, c.title)
		units += fmt.Sprintf("  %*s", c.width, c.unit)
	}
	form := func(name string) string {
		return fmt.Sprintf("%*s%*s", (len(titles)+len(name))/2, name, (len(titles)-len(name)+1)/2, "")
	}
	fmt.Fprintf(&b, "\n#\n%s\n%s\n%s\n",
		strings.TrimRight(fmt.Sprintf(headText, "", "", "", "", "")+form("out-of-place")+form("in-place"), " "),
		fmt.Sprintf(headText, "size", "count", "type", "redop", "root")+titles+titles,
		strings.TrimRight(fmt.Sprintf(headText, "(B)", "(elements)", "", "", "")+units+units, " "))
	_, err := io.WriteString(t.w, b.String())
	return err
}

// line writes the two forms of a size. A form that does not exist is nil.
func (t *Table) line(outOfPlace, inPlace *Row) error {
	row := inPlace
	if row == nil {
		row = outOfPlace
	}
	_, err := fmt.Fprintf(t.w, head+"%s%s\n", fmt.Sprint(row.Bytes), fmt.Sprint(row.Count), orNone(row.Type),
		orNone(row.Op), fmt.Sprint(row.Root), t.form(outOfPlace), t.form(inPlace))
	return err
}

func orNone(name string) string {
	if name == "" {
		return "none"
	}
	return name
}

func (t *Table) form(r *Row) (text string) {
	for _, c := range t.columns() {
		value := "N/A"
		if r != nil {
			value = c.value(r)
		}
		text += fmt.Sprintf("  %*s", c.width, value)
	}
	return text
}

// number shows a value with as many decimals, up to two, as fit the width.
func number(value float64, width int) string {
	for decimals := 2; decimals >= 0; decimals-- {
		if text := fmt.Sprintf("%.*f", decimals, value); len(text) <= width {
			return text
		}
	}
	return fmt.Sprintf("%.1e", value)
}
