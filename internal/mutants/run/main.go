// Run tries mutants on the module in the current folder and prints a table of them:
//
//	go run ./internal/mutants/run [-some N] [-v] [words of names and packages]
//
// It exits with 1 if any survives.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/mutants"
)

func main() {
	some := flag.Int("some", 0, "try only so many, others with every commit")
	verbose := flag.Bool("v", false, "show what the tests of survivors print")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	chosen := choose(mutants.All(), *some, flag.Args())
	bad := 0
	for v := range try(ctx, chosen) {
		word := "caught"
		switch {
		case v.Err != nil:
			word = "BROKEN"
		case !v.Caught:
			word = "SURVIVED"
		}
		fmt.Printf("%-9s %5.1f s  %-45s %s %s\n", word, v.Took.Seconds(), v.Mutant.Name, v.Mutant.Pkg, v.Mutant.Run)
		if word == "caught" {
			continue
		}
		bad++
		if v.Err != nil {
			fmt.Println("         ", v.Err)
		}
		if *verbose {
			fmt.Println(v.Output)
		}
	}
	fmt.Printf("%d mutants, %d not caught\n", len(chosen), bad)
	if bad > 0 {
		os.Exit(1)
	}
}

// choose picks mutants whose names or packages have all the words, at most some of them (0: all).
func choose(all []mutants.Mutant, some int, words []string) (chosen []mutants.Mutant) {
	for _, m := range all {
		fits := true
		for _, w := range words {
			fits = fits && strings.Contains(m.Name+" "+m.Pkg, w)
		}
		if fits {
			chosen = append(chosen, m)
		}
	}
	if some > 0 && some < len(chosen) {
		commit, _ := exec.Command("git", "rev-parse", "HEAD").Output()
		hash := fnv.New64a()
		hash.Write([]byte(cmp.Or(string(commit), time.Now().Format(time.DateOnly))))
		rand.New(rand.NewPCG(hash.Sum64(), 0)).Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		chosen = chosen[:some]
	}
	return chosen
}

// try tries them side by side, as many as there are cores, half of them.
func try(ctx context.Context, chosen []mutants.Mutant) <-chan mutants.Verdict {
	verdicts, limit := make(chan mutants.Verdict), make(chan struct{}, max(2, runtime.NumCPU()/2))
	var wg sync.WaitGroup
	for _, m := range chosen {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			verdicts <- mutants.Try(ctx, ".", m)
		})
	}
	go func() {
		wg.Wait()
		close(verdicts)
	}()
	return verdicts
}
