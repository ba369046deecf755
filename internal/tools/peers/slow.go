package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gorun/gorun/internal/bench"
)

const (
	slowFrom   = 4
	slowTo     = 16 << 10
	slowStep   = 4
	slowBudget = 5 * time.Millisecond
	slowFactor = 5 // times the median of all measurements is slow
)

// countSlow runs short benchmarks of allreduce, each by new processes, and prints how many are slow
// at some size.
func countSlow(ctx context.Context, w io.Writer, s settings, g *ground, about string) error {
	var all []map[int]float64
	for range s.slow {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		rows, err := runRing(g.command(ctx, ringArgs(s, g, bench.Options{
			Collective: "allreduce",
			Min:        slowFrom,
			Max:        slowTo,
			Factor:     slowStep,
			Budget:     slowBudget,
		})))
		cancel()
		if err != nil {
			return err
		}
		times := map[int]float64{}
		for _, r := range rows {
			times[r.Bytes] = r.Median
		}
		all = append(all, times)
	}
	_, err := fmt.Fprintf(w, "%s; allreduce of %d ranks, %d to %d bytes\n\n%s", about, s.np, slowFrom, slowTo,
		slowTable(all))
	return err
}

// slowTable returns how many runs are slow, and at which sizes. A run is µs by size.
func slowTable(runs []map[int]float64) string {
	text := fmt.Sprintf("| bytes | median | most | slow, more than %d times the median |\n|---|---|---|---|\n",
		slowFactor)
	slowRuns := map[int]bool{}
	for bytes := slowFrom; bytes <= slowTo; bytes *= slowStep {
		var times []float64
		for _, run := range runs {
			times = append(times, run[bytes])
		}
		limit := slowFactor * median(times)
		most := 0.0
		slow := 0
		for i, us := range times {
			most = max(most, us)
			if us > limit {
				slow++
				slowRuns[i] = true
			}
		}
		text += fmt.Sprintf("| %d | %.4g | %.4g | %d |\n", bytes, median(times), most, slow)
	}
	return text + fmt.Sprintf("\n%d of %d runs are slow at some size\n", len(slowRuns), len(runs))
}
