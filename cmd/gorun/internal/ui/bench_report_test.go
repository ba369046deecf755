package ui

import (
	"io"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// A rank cannot make the report keep any number of rows.
func TestRowsAreBounded(t *testing.T) {
	r := &BenchReport{Out: io.Discard, JSON: true}
	_, err := io.WriteString(r, strings.Repeat("{}\n", maxRows+1))
	check.That(t, err != nil && strings.Contains(err.Error(), "more than 65536 rows"), "%v", err)
}
