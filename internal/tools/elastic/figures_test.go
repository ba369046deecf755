package main

import (
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

func TestPercentile(t *testing.T) {
	var sorted []time.Duration
	for i := range 60 {
		sorted = append(sorted, time.Duration(i+1))
	}
	for p, want := range map[int]time.Duration{0: 1, 1: 1, 50: 30, 90: 54, 99: 60, 100: 60} {
		got := percentile(sorted, p)
		check.That(t, got == want, "p%d of 1 to 60 is %d, want %d", p, got, want)
	}
	check.Equal(t, percentile(sorted[:1], 50), 1, "the median of one")
}

func TestCell(t *testing.T) {
	s := time.Second
	hung := outcome{says: "nothing within 120 s"}
	for _, tc := range []struct {
		theirs, ours []outcome
		cell, ratio  string
	}{
		{[]outcome{{took: 4 * s}, {took: 2 * s}, {took: 9 * s}}, []outcome{{took: 2 * s}}, "4.0 s (2.0–9.0)", "2.0×"},
		{[]outcome{{took: 4 * s, paused: s, loads: 2 * s}}, []outcome{{took: 2 * s}},
			"4.0 s (4.0–4.0); pause 1.00 s (1.00–1.00); it imports for 2.0 s (2.0–2.0)", "2.0×"},
		{[]outcome{hung, hung}, []outcome{{took: s}}, "nothing within 120 s", ""},
		{[]outcome{hung, {took: s}}, []outcome{{took: s}}, "1.0 s (1.0–1.0); 1 of 2: nothing within 120 s", ""},
		{[]outcome{{ended: s, says: "the job ends, exit code 1"}, {ended: 3 * s, says: "the job ends, exit code 1"},
			hung}, []outcome{{took: s}},
			"1 of 3: nothing within 120 s; 2 of 3: the job ends, exit code 1, after 1.0 s (1.0–3.0)", ""},
		{[]outcome{{took: s, says: "exit code 1"}, {took: s, says: "exit code 1"}}, []outcome{{took: s}, hung},
			"1.0 s (1.0–1.0); exit code 1", ""},
	} {
		check.Equal(t, cell(tc.theirs), tc.cell, tc.theirs)
		check.Equal(t, ratio(tc.theirs, tc.ours), tc.ratio, tc.theirs, "beside", tc.ours)
	}
}
