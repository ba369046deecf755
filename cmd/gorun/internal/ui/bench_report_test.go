package ui

import (
	"io"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/bench"
	"github.com/gorun/gorun/internal/test/check"
)

// A rank cannot make the report keep any number of rows.
func TestRowsAreBounded(t *testing.T) {
	r := &BenchReport{Out: io.Discard, JSON: true}
	_, err := io.WriteString(r, strings.Repeat(`{"collective":"barrier"}`+"\n", maxRows+1))
	check.That(t, err != nil && strings.Contains(err.Error(), "more than 65536 rows"), "%v", err)
}

// Names in rows are those of benchmarks. A plot is as wide as the longest of them, and as high as
// there are different ones: a few MB of rows took as many GB.
func TestRowsHaveTheNamesOfABenchmark(t *testing.T) {
	for _, row := range []string{
		`{"collective":"allreduce","type":"` + strings.Repeat("x", 20_000) + `"}`,
		`{"collective":"allreduce","type":"float","op":"sum\ngorun: forged"}`,
		`{"collective":"allreduce\ngorun: forged"}`,
		`{"collective":"allreduce","device":"NCCL\ngorun: forged"}`,
		`{"collective":"allreduce","device":"` + strings.Repeat("x", 1000) + `"}`,
		`{}`,
	} {
		r := &BenchReport{Table: bench.NewTable(io.Discard), Out: io.Discard}
		_, err := io.WriteString(r, row+"\n")
		check.Error(err).Says(t, "a rank printed", row[:min(len(row), 60)])
		check.Equal(t, len(r.rows), 0)
	}
	r := &BenchReport{Table: bench.NewTable(io.Discard), Out: io.Discard}
	_, err := io.WriteString(r, `{"collective":"allreduce","type":"half","op":"max","device":"NCCL 2.27"}`+"\n")
	check.OK(t, err)
}
