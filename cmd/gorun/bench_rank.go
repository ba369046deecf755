package main

import (
	"context"
	"fmt"
	"os"

	"github.com/gorun/gorun/internal/bench"
)

// benchRank is the first argument that makes gorun one rank of a benchmark.
const benchRank = "__bench"

// runBenchRank is one rank: its only argument are the bench.Options, as JSON.
func runBenchRank(args []string) int {
	if err := bench.Rank(context.Background(), args, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gorun bench:", err)
		return 1
	}
	return 0
}
