// Command campaign harms jobs many times and judges each from outside:
//
//	campaign [-n 200] [-seed 1] [-side-by-side 4] GORUN RANK
//
// The seed alone determines an injection; the i-th has seed -seed + i, so -n 1 with it replays one.
// The command prints a JSON object per line, a summary on stderr, and exits with 1 if any invariant
// was broken. It needs root.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/test/faults"
)

type campaign struct {
	gorun, rank string
	n, workers  int
	seed        uint64
	bounds      faults.Bounds

	mu       sync.Mutex
	next     int
	verdicts []faults.Verdict
	errs     []error
}

func main() {
	c := &campaign{}
	flag.IntVar(&c.n, "n", 200, "number of injections")
	flag.Uint64Var(&c.seed, "seed", 1, "seed of the first; each next one's is one more")
	flag.IntVar(&c.workers, "side-by-side", 4, "clusters that work at the same time")
	flag.DurationVar(&c.bounds.Slack, "slack", 3*time.Second,
		"what this machine, loaded as it is, may take longer than promised")
	flag.DurationVar(&c.bounds.Fence, "fence", 12*time.Second, "time until a host that is cut off has ended its ranks")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: campaign [-n 200] [-seed 1] [-side-by-side 4] GORUN RANK")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 2 || c.n < 1 || c.workers < 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := c.run(ctx, flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(1)
	}
}

// run does all injections and reports.
func (c *campaign) run(ctx context.Context, gorun, rank string) (err error) {
	if c.gorun, err = filepath.Abs(gorun); err != nil {
		return err
	}
	if c.rank, err = filepath.Abs(rank); err != nil {
		return err
	}
	begun := time.Now()
	var wg sync.WaitGroup
	for range min(c.workers, c.n) {
		wg.Go(func() { c.work(ctx) })
	}
	wg.Wait()
	s := summarize(c.verdicts)
	fmt.Fprintf(os.Stderr, "%sin %v, %d side by side, seeds %d to %d\n", s, time.Since(begun).Round(time.Second),
		c.workers, c.seed, c.seed+uint64(c.n)-1)
	if s.broken > 0 {
		c.errs = append(c.errs, fmt.Errorf("%d of %d injections broke an invariant", s.broken, s.count))
	}
	return errors.Join(append(c.errs, ctx.Err())...)
}

// work does one injection after the other, on one cluster while it is intact.
func (c *campaign) work(ctx context.Context) {
	var bed *faults.Testbed
	done := func() {
		if bed != nil {
			c.note(bed.Close())
		}
		bed = nil
	}
	defer done()
	for {
		seed, ok := c.take(ctx)
		if !ok {
			return
		}
		if bed == nil {
			var err error
			if bed, err = faults.NewTestbed(ctx, c.gorun, c.rank, c.bounds); err != nil {
				c.note(err)
				return
			}
		}
		v, err := bed.Inject(ctx, faults.Draw(seed))
		if err != nil {
			c.note(err)
		} else {
			c.record(v)
		}
		if err != nil || len(v.Violations) > 0 {
			done()
		}
	}
}

func (c *campaign) take(ctx context.Context) (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == c.n || ctx.Err() != nil {
		return 0, false
	}
	c.next++
	return c.seed + uint64(c.next-1), true
}

func (c *campaign) note(err error) {
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		fmt.Fprintln(os.Stderr, "campaign:", err)
		c.errs = append(c.errs, err)
	}
}

func (c *campaign) record(v faults.Verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verdicts = append(c.verdicts, v)
	line, err := json.Marshal(v)
	if err != nil {
		c.errs = append(c.errs, err)
		return
	}
	fmt.Println(string(line))
}
