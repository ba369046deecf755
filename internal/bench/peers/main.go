// Command peers times allreduce of ring, Open MPI, MPICH and Gloo on this
// machine, on the same sizes, one after the other and all again, and prints a
// Markdown table of the medians. A peer that cannot be built is left out, with the reason.
//
//	go run ./internal/bench/peers -np 2 [-max 64M] [-rounds 3] [-svg FILE] GORUN
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/bench"
)

// peer is one implementation.
type peer struct {
	name  string
	build []string // argv; nil: nothing to build
	run   func(ctx context.Context, np, max int, dir string) (map[int]float64, error)
}

func main() {
	np := flag.Int("np", 2, "ranks")
	limit := flag.Int("max", 64<<20, "largest vector in bytes")
	rounds := flag.Int("rounds", 3, "times everything is run")
	svg := flag.String("svg", "", "also draw the medians into this file")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := compare(flag.Arg(0), *np, *limit, *rounds, *svg); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func compare(gorun string, np, limit, rounds int, svg string) error {
	dir, err := os.MkdirTemp("", "gorun-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var all []peer
	for _, p := range peers(gorun, dir) {
		if err := build(p); err != nil {
			fmt.Fprintf(os.Stderr, "peers: without %s: %v\n", p.name, err)
			continue
		}
		all = append(all, p)
	}
	times := map[string]map[int][]float64{}
	for range rounds {
		for _, p := range all {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			got, err := p.run(ctx, np, limit, dir)
			cancel()
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if times[p.name] == nil {
				times[p.name] = map[int][]float64{}
			}
			for bytes, us := range got {
				times[p.name][bytes] = append(times[p.name][bytes], us)
			}
		}
	}
	return report(all, times, np, svg)
}

func peers(gorun, dir string) []peer {
	source := func(name string) string { return filepath.Join("internal/bench/peers/programs", name) }
	ompi, mpich, gloo := filepath.Join(dir, "ompi"), filepath.Join(dir, "mpich"), filepath.Join(dir, "gloo")
	return []peer{
		{"ring", nil, func(ctx context.Context, np, limit int, _ string) (map[int]float64, error) {
			return runRing(ctx, gorun, np, limit)
		}},
		{"Open MPI", []string{"mpicc.openmpi", "-O2", "-o", ompi, source("mpi_allreduce.c")},
			func(ctx context.Context, np, limit int, _ string) (map[int]float64, error) {
				return lines(exec.CommandContext(ctx, "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", strconv.Itoa(np), ompi, strconv.Itoa(limit)))
			}},
		{"MPICH", []string{"mpicc.mpich", "-O2", "-o", mpich, source("mpi_allreduce.c")},
			func(ctx context.Context, np, limit int, _ string) (map[int]float64, error) {
				return lines(exec.CommandContext(ctx, "mpiexec.mpich", "-np", strconv.Itoa(np), mpich, strconv.Itoa(limit)))
			}},
		{"Gloo", []string{"g++", "-O2", "-o", gloo, source("gloo_allreduce.cc"), "-lgloo", "-lpthread"},
			func(ctx context.Context, np, limit int, dir string) (map[int]float64, error) {
				return runGloo(ctx, gloo, np, limit, dir)
			}},
	}
}

func build(p peer) error {
	if p.build == nil {
		return nil
	}
	if out, err := exec.Command(p.build[0], p.build[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w %.300s", err, out)
	}
	return nil
}

// runRing keeps the out-of-place times, which the others measure too.
func runRing(ctx context.Context, gorun string, np, limit int) (map[int]float64, error) {
	cmd := exec.CommandContext(ctx, gorun, "bench", "allreduce", "-np", strconv.Itoa(np), "--min", "4", "--max", strconv.Itoa(limit), "--json")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &stderr)
	}
	times := map[int]float64{}
	for line := range bytes.Lines(out) {
		var row bench.Row
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, err
		}
		if !row.InPlace {
			times[row.Bytes] = row.Median
		}
	}
	return times, nil
}

// lines reads "bytes µs" lines.
func lines(cmd *exec.Cmd) (map[int]float64, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &stderr)
	}
	times := map[int]float64{}
	for line := range strings.Lines(string(out)) {
		var size int
		var us float64
		if _, err := fmt.Sscan(line, &size, &us); err != nil {
			return nil, fmt.Errorf("printed %q", line)
		}
		times[size] = us
	}
	return times, nil
}

func runGloo(ctx context.Context, program string, np, limit int, dir string) (map[int]float64, error) {
	store, err := os.MkdirTemp(dir, "store-")
	if err != nil {
		return nil, err
	}
	rank := func(r int) *exec.Cmd {
		return exec.CommandContext(ctx, program, strconv.Itoa(r), strconv.Itoa(np), store, strconv.Itoa(limit))
	}
	var others sync.WaitGroup
	for r := 1; r < np; r++ {
		others.Go(func() { _ = rank(r).Run() }) // rank 0 fails with them
	}
	defer others.Wait()
	return lines(rank(0))
}

// report prints the table, and how much faster ring is than the best peer.
func report(all []peer, times map[string]map[int][]float64, np int, svg string) error {
	sizes := map[int]bool{}
	for _, p := range all[1:] {
		for size := range times[p.name] {
			sizes[size] = true
		}
	}
	var sorted []int
	for size := range sizes {
		sorted = append(sorted, size)
	}
	slices.Sort(sorted)
	fmt.Printf("%d ranks, µs\n\n| bytes |", np)
	for _, p := range all {
		fmt.Printf(" %s |", p.name)
	}
	fmt.Printf(" best peer / ring |\n|%s\n", strings.Repeat("---|", len(all)+2))
	series := make([]bench.Series, len(all))
	for _, size := range sorted {
		fmt.Printf("| %d |", size)
		best, ours := 0.0, 0.0
		for i, p := range all {
			us := median(times[p.name][size])
			series[i].Name = p.name
			series[i].Rows = append(series[i].Rows, bench.Row{Bytes: size, Median: us})
			fmt.Printf(" %.4g |", us)
			switch {
			case i == 0:
				ours = us
			case best == 0 || us < best:
				best = us
			}
		}
		fmt.Printf(" %.1f |\n", best/ours)
	}
	if svg == "" {
		return nil
	}
	var picture bytes.Buffer
	if err := bench.Plot(&picture, fmt.Sprintf("allreduce of float32, %d ranks on one host", np), series); err != nil {
		return err
	}
	return os.WriteFile(svg, picture.Bytes(), 0o644)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
