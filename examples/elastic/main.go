// Elastic trains a small network on images of handwritten digits while ranks fail, leave and join.
// After each change ring.Elastic calls train again, with the state of the last commit.
//
//	gorun -np 4 --min-np 2 -H localhost:4 bin/examples/elastic
//	gorun -np 4 --min-np 2 --max-np 8 --host-discovery-script ./hosts.sh bin/examples/elastic
//
// A step takes as many images as any other, however many ranks share them, so faults change the
// result only by rounding.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/gorun/gorun/ring"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "elastic:", err)
		os.Exit(1)
	}
}

// config is what the user can choose.
type config struct {
	data   string
	passes int
	batch  int // images that all ranks together take in a step
	commit int // steps from one commit to the next
	rate   float64
	pause  time.Duration // after each step
	seed   uint64
}

func parse(args []string) (config, error) {
	var c config
	flags := flag.NewFlagSet("elastic", flag.ContinueOnError)
	flags.StringVar(&c.data, "data", "examples/mnist/data", "`folder` with MNIST's four files, .gz")
	flags.IntVar(&c.passes, "passes", 30, "passes over the training images")
	flags.IntVar(&c.batch, "batch", 96, "images all ranks together take in a step")
	flags.IntVar(&c.commit, "commit", 5, "steps from one commit to the next")
	flags.Float64Var(&c.rate, "rate", 0.1, "learning rate")
	flags.DurationVar(&c.pause, "pause", 0, "pause after each step")
	flags.Uint64Var(&c.seed, "seed", 1, "start of all random numbers")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if c.passes < 1 || c.batch < 1 || c.commit < 1 || flags.NArg() > 0 {
		return c, errors.New("--passes, --batch and --commit must be at least 1, and there are no other arguments")
	}
	return c, nil
}

// run is one rank's whole program.
func run(ctx context.Context, args []string, out io.Writer, opts ...ring.Option) error {
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	t, err := newTrainer(cfg, out)
	if err != nil {
		return err
	}
	return ring.Elastic(ctx, t.state, t.train, opts...)
}
