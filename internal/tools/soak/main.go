// Soak runs many short jobs, in sequence and then all at once, and reports what grows:
//
//	go run ./internal/tools/soak -n 2000 bin/gorun
//
// Jobs of this machine and of two lab hosts alternate; with -kept, all run on the two hosts, kept
// by gorun up. It prints counts of everything and the growth per job, and exits with 1 if a job
// failed or left something.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gorun/gorun/internal/test/lab"
)

func main() {
	n := flag.Int("n", 2000, "jobs one after the other")
	atOnce := flag.Int("at-once", 50, "jobs at one time, after that")
	kept := flag.Bool("kept", false, "on kept hosts")
	flag.Parse()
	if flag.NArg() != 1 || *n < 1 {
		fmt.Fprintln(os.Stderr, "usage: soak [-n N] [-at-once N] [-kept] GORUN")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, flag.Arg(0), *kept, *n, *atOnce); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, gorun string, kept bool, n, atOnce int) (failed error) {
	c, err := lab.Loopback(ctx, lab.Specs(2)...)
	if err != nil {
		return fmt.Errorf("start the lab: %w", err)
	}
	defer c.Close()
	s := &soak{gorun: gorun, cluster: c}
	if kept {
		home, err := os.MkdirTemp("", "gorun-e2e-home-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(home)
		end, err := s.keep(ctx, home)
		if err != nil {
			return err
		}
		defer func() { failed = errors.Join(failed, end()) }()
	}
	if err := s.inTurn(ctx, n); err != nil {
		return err
	}
	fmt.Print(table(s.samples))
	if grown := growth(s.samples); len(grown) > 0 {
		return fmt.Errorf("after %d jobs there is more of: %v", n, grown)
	}
	return s.together(ctx, atOnce)
}
