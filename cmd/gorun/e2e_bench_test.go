package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/bench"
	"github.com/gorun/gorun/internal/lab"
)

func TestBenchChecksWhatItTimes(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	for _, collective := range bench.Collectives() {
		for _, args := range [][]string{
			{"-np", "3", "--transport", "shm"},
			{"-np", "3", "--transport", "tcp"},
			{"-F", c.ConfigFile, "-np", "4", "-H", "f1:2,f2:2"},
		} {
			args = append([]string{"bench", collective, "--json", "--min", "1K", "--max", "512K", "--time", "0.005"}, args...)
			r := start(t, nil, args...).want(0)
			rows := 0
			for _, line := range r.lines() {
				var row bench.Row
				if err := json.Unmarshal([]byte(line), &row); err != nil || row.Wrong != 0 || row.Median <= 0 || row.Collective != collective {
					t.Errorf("%q: %s, %v", args, line, err)
				}
				rows++
			}
			if want := 10; rows != want && rows != 2*want {
				t.Errorf("%q: %d rows", args, rows)
			}
		}
	}
}

func TestBenchTableAndPlot(t *testing.T) {
	plot := filepath.Join(t.TempDir(), "p.svg")
	r := start(t, nil, "bench", "allreduce", "-np", "2", "--max", "64", "--time", "0.002", "--plot", plot).want(0)
	if lines := r.lines(); len(lines) != 3+4 || !strings.Contains(lines[2], "busbw") || !strings.HasPrefix(strings.TrimSpace(lines[3]), "8 ") {
		t.Errorf("table:\n%s", &r.out)
	}
	svg, err := os.ReadFile(plot)
	if err != nil || !strings.HasPrefix(string(svg), "<svg") || strings.Count(string(svg), "<polyline") != 2 {
		t.Errorf("plot: %v, %.100q", err, svg)
	}
	start(t, nil, "bench", "alreduce").want(2, "alreduce", "allreduce, allgather, broadcast")
	start(t, nil, "bench", "allreduce", "--min", "2").want(2, "--min")
	start(t, nil, "bench", "allreduce", "--max", "big").want(2, "bytes")
}
