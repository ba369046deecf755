package bench

import (
	"fmt"
	"io"
)

// Table writes rows as they come, the out-of-place and the in-place row of a size
// on one line, as nccl-tests does.
type Table struct {
	w       io.Writer
	begun   bool
	pending *Row // an out-of-place row whose in-place row has not come
}

// The columns that every line begins with, and those of one form.
const (
	head     = "%12d %12d %8s %5s"
	titles   = "#%11s %12s %8s %5s"
	halfLine = "%8s %8s %8s %8s %6s"
)

// NewTable returns a Table on w.
func NewTable(w io.Writer) *Table { return &Table{w: w} }

// Add writes row, or keeps it until its other half comes. [Table.Flush] writes what is
// kept.
func (t *Table) Add(row Row) error {
	if err := t.begin(row); err != nil {
		return err
	}
	if row.InPlace {
		left := t.pending
		t.pending = nil
		return t.line(left, &row)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	t.pending = &row
	if c, known := find(row.Collective); known && !c.inPlace {
		return t.Flush()
	}
	return nil
}

// Flush writes a row that lacks its other half.
func (t *Table) Flush() error {
	if t.pending == nil {
		return nil
	}
	left := t.pending
	t.pending = nil
	return t.line(left, nil)
}

func (t *Table) begin(row Row) error {
	if t.begun {
		return nil
	}
	t.begun = true
	if row.Device != "" {
		if _, err := fmt.Fprintf(t.w, "# memory of GPUs, by %s\n", row.Device); err != nil {
			return err
		}
	}
	columns := fmt.Sprintf(halfLine, "time", "p99", "algbw", "busbw", "#wrong")
	_, err := fmt.Fprintf(t.w, "# %s, %d ranks; times in µs (median, 99th percentile of the slowest rank), bandwidths in GB/s\n"+
		titles+" | %35s %6s | %35s %6s\n"+titles+" | %s | %s\n",
		row.Collective, row.Ranks, "", "", "", "", "out of place", "", "in place", "",
		"size (B)", "count", "type", "op", columns, columns)
	return err
}

// line writes the two forms of a size. A form that does not exist is nil.
func (t *Table) line(outOfPlace, inPlace *Row) error {
	row := inPlace
	if row == nil {
		row = outOfPlace
	}
	op := row.Op
	if op == "" {
		op = "-"
	}
	_, err := fmt.Fprintf(t.w, head+" | %s | %s\n", row.Bytes, row.Count, row.Type, op, half(outOfPlace), half(inPlace))
	return err
}

func half(r *Row) string {
	if r == nil {
		return fmt.Sprintf(halfLine, "N/A", "N/A", "N/A", "N/A", "N/A")
	}
	return fmt.Sprintf("%8s %8s %8.2f %8.2f %6d", micros(r.Median), micros(r.P99), r.AlgBW, r.BusBW, r.Wrong)
}

// micros shows a time with about three digits.
func micros(us float64) string {
	switch {
	case us < 10:
		return fmt.Sprintf("%.2f", us)
	case us < 100:
		return fmt.Sprintf("%.1f", us)
	}
	return fmt.Sprintf("%.0f", us)
}
