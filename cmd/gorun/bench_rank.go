package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/gorun/gorun/internal/bench"
	"github.com/gorun/gorun/ring"
)

// benchRank is the first argument that makes gorun one rank of a benchmark.
const benchRank = "__bench"

// runBenchRank is one rank: its only argument are the bench.Options, as JSON.
func runBenchRank(args []string) int {
	if err := timeCollective(context.Background(), args); err != nil {
		fmt.Fprintln(os.Stderr, "gorun bench:", err)
		return 1
	}
	return 0
}

func timeCollective(ctx context.Context, args []string) error {
	var opts bench.Options
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &opts) != nil {
		return errors.New("this command is internal to gorun")
	}
	c, err := ring.Init(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	out := json.NewEncoder(os.Stdout)
	var lost error
	err = bench.Run(ctx, c, opts, func(row bench.Row) {
		if c.Rank() == 0 {
			lost = errors.Join(lost, out.Encode(row))
		}
	})
	return errors.Join(err, lost)
}
