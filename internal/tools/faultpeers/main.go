// Command faultpeers harms jobs of gorun, mpirun and mpiexec.hydra in the same ways, on real hosts
// made for each fault, inspects the results from outside, and prints a table in Markdown:
//
//	faultpeers [-n 3] [-only WORD] GORUN
//
// It needs root. A launcher that is not installed is left out.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	runs := flag.Int("n", 3, "how often each fault is done; the table has the worst")
	only := flag.String("only", "", "only faults whose name contains this")
	flag.Parse()
	if flag.NArg() != 1 || *runs < 1 {
		fmt.Fprintln(os.Stderr, "usage: faultpeers [-n 3] [-only WORD] GORUN")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), *runs, *only); err != nil {
		fmt.Fprintln(os.Stderr, "faultpeers:", err)
		os.Exit(1)
	}
}

// run fills the table row by row, the launchers in turn.
func run(ctx context.Context, gorun string, runs int, only string) error {
	all := installed(gorun)
	fmt.Print("| fault |")
	for _, l := range all {
		fmt.Printf(" %s |", l.version)
	}
	fmt.Print("\n|---|" + strings.Repeat("---|", len(all)) + "\n")
	for _, f := range faultList() {
		if !strings.Contains(f.name, only) {
			continue
		}
		worst := make([]outcome, len(all))
		for range runs {
			for i, l := range all {
				o, err := try(ctx, l, f)
				if err != nil {
					return fmt.Errorf("%s under %s: %w", f.name, l.name, err)
				}
				worst[i] = worst[i].orWorse(o)
			}
		}
		fmt.Printf("| %s |", f.name)
		for _, o := range worst {
			fmt.Printf(" %s |", o.cell(f))
		}
		fmt.Println()
	}
	return nil
}
