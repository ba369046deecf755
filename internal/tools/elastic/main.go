// Command elastic harms elastic jobs of stock Horovod under horovodrun and gorun in turn, on real
// hosts made for each, and prints a table in Markdown, or repeats one measurement of gorun:
//
//	elastic [-n 3] [-only WORD] GORUN
//	elastic -silent 60 [-jobs 3] GORUN      time that the others need when a host goes silent
//	elastic -added 10 GORUN                 time that they pause when a host is added
//
// or trainings by gorun.torch.Resilient:
//
//	elastic -kills 50 [-seed 1] GORUN       whether they end with the same bits when ranks or hosts are lost
//	elastic -recover 50 [-smaller] GORUN    time from the loss of a rank to the next step
//	elastic -cost 10 GORUN                  time of a step beside that of a plain training
//	elastic -useful 10m [-n 3] GORUN        useful share of the time, beside torchrun and Horovod
//
// It needs root. Tables show the median, with minimum and maximum in parentheses.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options are the command's flags.
type options struct {
	runs, silent, jobs, added int
	kills, recover, cost      int
	smaller                   bool
	useful                    time.Duration
	seed                      uint64
	only, log                 string
}

func main() {
	var o options
	flag.IntVar(&o.runs, "n", 3, "how often each harm is done under each launcher")
	flag.StringVar(&o.only, "only", "", "only harm whose name contains this")
	flag.StringVar(&o.log, "log", "", "`folder` for the output of each job")
	flag.IntVar(&o.silent, "silent", 0, "instead: so many hosts go silent")
	flag.IntVar(&o.jobs, "jobs", 3, "jobs side by side in which they do")
	flag.IntVar(&o.added, "added", 0, "instead: so many hosts are added, one after the other")
	flag.IntVar(&o.kills, "kills", 0,
		"instead: so many trainings by gorun.torch.Resilient in which a rank or a host is lost")
	flag.IntVar(&o.recover, "recover", 0, "instead: so many ranks of such a training are killed")
	flag.BoolVar(&o.smaller, "smaller", false, "without a spare: the others go on")
	flag.IntVar(&o.cost, "cost", 0, "instead: so many turns of such a training and a plain one")
	flag.DurationVar(&o.useful, "useful", 0, "instead: for so long a rank is killed every 30 s, -n times")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the first training; each next one's is one more")
	flag.Parse()
	if flag.NArg() != 1 || o.runs < 1 || o.jobs < 1 {
		fmt.Fprintln(os.Stderr, "usage: elastic [-n 3] [-only WORD] [-silent 60 [-jobs 3]] [-added 10] "+
			"[-kills 50 [-seed 1] [-jobs 1]] [-recover 50 [-smaller]] [-cost 10] [-useful 10m] GORUN")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), o); err != nil {
		fmt.Fprintln(os.Stderr, "elastic:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, gorun string, o options) (err error) {
	dir, err := os.MkdirTemp("", "gorun-elastic-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	trains := o.kills > 0 || o.recover > 0 || o.cost > 0 || o.useful > 0
	b, err := newBench(ctx, gorun, dir, o.silent > 0 || o.added > 0 || trains && o.useful == 0)
	if err != nil {
		return err
	}
	b.log = o.log
	if trains {
		r, err := newResilient(b, gorun)
		if err != nil {
			return err
		}
		return r.run(ctx, o)
	}
	switch {
	case o.silent > 0:
		return b.silences(ctx, o.silent, o.jobs)
	case o.added > 0:
		return b.additions(ctx, o.added)
	}
	return b.table(ctx, o)
}

// run does what the options want of trainings that lose no step.
func (r *resilient) run(ctx context.Context, o options) error {
	switch {
	case o.kills > 0:
		return r.kills(ctx, o.kills, o.seed, o.jobs)
	case o.recover > 0:
		return r.recoveries(ctx, o.recover, !o.smaller)
	case o.cost > 0:
		return r.cost(ctx, o.cost)
	}
	return r.useful(ctx, o.useful, o.runs)
}

// table does each harm to each launcher, which take turns in being first.
func (b *bench) table(ctx context.Context, o options) error {
	fmt.Println("| | horovodrun | gorun | |\n|---|---|---|---|")
	for _, r := range rows() {
		if !strings.Contains(r.name, o.only) {
			continue
		}
		all := map[string][]outcome{}
		for turn := range o.runs {
			for i := range b.launchers {
				s := b.launchers[(i+turn)%len(b.launchers)]
				got, err := b.try(ctx, s, r)
				if err != nil {
					return fmt.Errorf("%s under %s: %w", r.name, s.name, err)
				}
				fmt.Fprintf(os.Stderr, "%s, %s: %+v\n", r.name, s.name, got)
				all[s.name] = append(all[s.name], got)
			}
		}
		fmt.Printf("| %s | %s | %s | %s |\n", r.name, cell(all["horovodrun"]), cell(all["gorun"]),
			ratio(all["horovodrun"], all["gorun"]))
	}
	return nil
}
