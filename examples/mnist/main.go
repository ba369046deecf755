// Mnist trains a small network on images of handwritten digits, on as many ranks
// as gorun starts: every rank takes its share of each batch, and the gradients are
// averaged with one allreduce.
//
//	gorun -np 4 -H f1:2,f2:2 mnist
//
// It brings a small data set of its own. To train on MNIST itself, give the folder
// that has its four files: mnist --data DIR
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/gorun/gorun/ring"
)

func main() {
	err := run(context.Background(), os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mnist:", err)
		os.Exit(1)
	}
}

// run is the whole program of one rank.
func run(ctx context.Context, args []string, out io.Writer, opts ...ring.Option) error {
	cfg, err := parse(args)
	if err != nil {
		return err
	}
	train, test, err := load(cfg.data)
	if err != nil {
		return err
	}
	comm, err := ring.Init(ctx, opts...)
	if err != nil {
		return err
	}
	defer comm.Close()
	t := newTrainer(comm, cfg, train, test, out)
	result, err := t.fit(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "rank %d of %d on %s: final loss %.17g (bits %016x), accuracy %.2f %%\n",
		comm.Rank(), comm.Size(), comm.Host(), result.loss, math.Float64bits(result.loss), 100*result.accuracy)
	return err
}

// config is what the user can choose.
type config struct {
	data        string
	epochs      int
	batch       int // images a rank takes in a step
	globalBatch int // images all ranks take in a step; 0: batch for each rank
	filters     int
	hidden      int
	lr          float64 // for a step of batch images
	momentum    float64
	warmup      float64 // epochs
	seed        uint64
}

func parse(args []string) (config, error) {
	var c config
	flags := flag.NewFlagSet("mnist", flag.ContinueOnError)
	flags.StringVar(&c.data, "data", "",
		"`folder` with the four MNIST files, plain or .gz (default: the built-in 8x8 digits)")
	flags.IntVar(&c.epochs, "epochs", 30, "passes over the training images")
	flags.IntVar(&c.batch, "batch", 32, "images each rank takes in a step")
	flags.IntVar(&c.globalBatch, "global-batch", 0,
		"images all ranks together take in a step, split over them (default: batch for each)")
	flags.IntVar(&c.filters, "filters", 16, "3x3 filters of the first layer")
	flags.IntVar(&c.hidden, "hidden", 64, "units of the hidden layer")
	flags.Float64Var(&c.lr, "lr", 0.03, "learning rate for a step of --batch images; it grows with the images all "+
		"ranks take")
	flags.Float64Var(&c.momentum, "momentum", 0.9, "momentum of the gradient")
	flags.Float64Var(&c.warmup, "warmup", 3, "epochs in which the learning rate grows to its full size")
	flags.Uint64Var(&c.seed, "seed", 1, "start of all random numbers")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	switch {
	case flags.NArg() > 0:
		return c, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case c.epochs < 1 || c.batch < 1 || c.filters < 1 || c.hidden < 1 || c.globalBatch < 0:
		return c, errors.New("--epochs, --batch, --filters and --hidden must be at least 1, --global-batch at least 0")
	}
	return c, nil
}
