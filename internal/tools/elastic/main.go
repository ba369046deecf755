// Command elastic harms elastic jobs of stock Horovod under horovodrun and gorun in turn, on real
// hosts made for each, and prints a table in Markdown, or repeats one measurement of gorun:
//
//	elastic [-n 3] [-only WORD] GORUN
//	elastic -silent 60 [-jobs 3] GORUN      time that the others need when a host goes silent
//	elastic -added 10 GORUN                 time that they pause when a host is added
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
)

// options are the command's flags.
type options struct {
	runs, silent, jobs, added int
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
	flag.Parse()
	if flag.NArg() != 1 || o.runs < 1 || o.jobs < 1 {
		fmt.Fprintln(os.Stderr, "usage: elastic [-n 3] [-only WORD] [-silent 60 [-jobs 3]] [-added 10] GORUN")
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
	b, err := newBench(ctx, gorun, dir, o.silent > 0 || o.added > 0)
	if err != nil {
		return err
	}
	switch b.log = o.log; {
	case o.silent > 0:
		return b.silences(ctx, o.silent, o.jobs)
	case o.added > 0:
		return b.additions(ctx, o.added)
	}
	return b.table(ctx, o)
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
