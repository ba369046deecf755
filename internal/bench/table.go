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

// NewTable returns a Table on w.
func NewTable(w io.Writer) *Table { return &Table{w: w} }

// Add writes row, or keeps it until its second half comes.
func (t *Table) Add(row Row) error {
	if !t.begun {
		t.begun = true
		if _, err := fmt.Fprintf(t.w, "# %s, %d ranks; times in µs (median, 99th percentile of the slowest rank), bandwidths in GB/s\n"+
			"#%11s %12s %6s %5s | %35s %6s | %35s %6s\n#%11s %12s %6s %5s | %8s %8s %8s %8s %6s | %8s %8s %8s %8s %6s\n",
			row.Collective, row.Ranks, "", "", "", "", "out of place", "", "in place", "",
			"size (B)", "count", "type", "op", "time", "p99", "algbw", "busbw", "#wrong", "time", "p99", "algbw", "busbw", "#wrong"); err != nil {
			return err
		}
	}
	if !row.InPlace {
		t.pending = &row
		return nil
	}
	op := row.Op
	if op == "" {
		op = "-"
	}
	left := fmt.Sprintf("%8s %8s %8s %8s %6s", "-", "-", "-", "-", "-")
	if t.pending != nil {
		left = half(*t.pending)
	}
	t.pending = nil
	_, err := fmt.Fprintf(t.w, "%12d %12d %6s %5s | %s | %s\n", row.Bytes, row.Count, row.Type, op, left, half(row))
	return err
}

func half(r Row) string {
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
