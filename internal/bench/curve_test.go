package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// ncclTests is what all_reduce_perf prints.
const ncclTests = `# nThread 1 nGpus 2 minBytes 8 maxBytes 16 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    12.85    0.00    0.01      0    12.68    0.00    0.00      0
          16             4     float     sum      -1    12.80    0.25    0.50      0    12.65    0.00    0.00      0
# Avg bus bandwidth    : 0.0025
`

func TestCurvesOfOthers(t *testing.T) {
	rows := []Row{{Collective: "allreduce", Bytes: 8, Type: "float", Op: "sum", BusBW: .25},
		{Collective: "allreduce", Bytes: 8, Type: "float", Op: "sum", BusBW: 9, InPlace: true},
		{Collective: "allreduce", Bytes: 64, Type: "float", Op: "sum", BusBW: 2.5}}
	var table, lines bytes.Buffer
	printed := NewTable(&table)
	for _, row := range rows {
		must.OK(t, printed.Add(row))
		must.OK(t, json.NewEncoder(&lines).Encode(row))
	}
	must.OK(t, printed.Finish())
	for text, want := range map[string][]Measured{
		ncclTests:                  {{8, .01}, {16, .5}},
		"noise\n" + table.String(): {{8, .25}, {64, 2.5}},
		lines.String():             {{8, .25}, {64, 2.5}},
		"a b c d e f g h\n{}\n":    nil,
	} {
		got, err := ReadCurve(strings.NewReader(text))
		check.That(t, slices.Equal(got, want) && (err == nil) == (want != nil), "%.30q: %v, %v", text, got, err)
	}
}

func TestCurvesAreBounded(t *testing.T) {
	var rows strings.Builder
	for bytes := range maxSizes + 1 {
		fmt.Fprintf(&rows, "{\"bytes\":%d}\n", bytes+1)
	}
	check.Error(ReadCurve(strings.NewReader(rows.String()))).Says(t, "more than 65536 sizes")
}
