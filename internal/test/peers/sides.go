package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/gorun/gorun/internal/bench"
)

// side is one implementation.
type side struct {
	name   string
	source []string // argv that builds it; nil: nothing to build
	// run returns the median time of one call in µs by size in bytes.
	run func(ctx context.Context) (map[int]float64, error)
	// moves says that it is no allreduce, but moves as many bytes both ways.
	moves bool
}

func (s side) build(ctx context.Context) error {
	if s.source == nil {
		return nil
	}
	if out, err := exec.CommandContext(ctx, s.source[0], s.source[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w %.300s", err, out)
	}
	return nil
}

// contestants are the sides that a transport has. Ring is the first.
func contestants(s settings, g *ground) []side {
	program := func(name string) string { return filepath.Join("internal/test/peers/programs", name) }
	built := func(name string) string { return filepath.Join(g.dir, name) }
	limits := []string{strconv.Itoa(int(s.min)), strconv.Itoa(int(s.max))}
	ring := func(name, collective string) side {
		return side{name: name, moves: collective != "allreduce", run: func(ctx context.Context) (map[int]float64, error) {
			return runRing(g.command(ctx, ringArgs(s, g, collective)))
		}}
	}
	mpi := func(name, suffix string, start ...string) side {
		return side{
			name:   name,
			source: []string{"mpicc." + suffix, "-O2", "-o", built(suffix), program("mpi_allreduce.c")},
			run: func(ctx context.Context) (map[int]float64, error) {
				argv := append(start, "-np", strconv.Itoa(s.np))
				return lines(g.command(ctx, append(append(argv, g.wrapper()...), append([]string{built(suffix)}, limits...)...)))
			},
		}
	}
	gloo := side{
		name:   "Gloo",
		source: []string{"g++", "-O2", "-o", built("gloo"), program("gloo_allreduce.cc"), "-lgloo", "-lpthread"},
		run:    func(ctx context.Context) (map[int]float64, error) { return runGloo(ctx, g, built("gloo"), limits) },
	}
	raw := side{
		name: "plain socket", moves: true,
		source: []string{"go", "build", "-o", built("duplex"), "./internal/test/peers/duplex"},
		run: func(ctx context.Context) (map[int]float64, error) {
			return runDuplex(ctx, g, built("duplex"), limits)
		},
	}
	if s.transport == "shm" {
		return []side{
			ring("ring", "allreduce"),
			mpi("Open MPI", "openmpi", "mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"),
			mpi("MPICH", "mpich", "mpiexec.mpich", "-bind-to", "none"),
			gloo,
		}
	}
	all := []side{ring("ring", "allreduce"), ring("ring sendrecv", "sendrecv"), gloo}
	if s.np == 2 {
		all = append(all, raw)
	}
	return all
}

// ringArgs starts a benchmark of ring. Pinned ranks are what `gorun bench` starts, with
// the wrapper before.
func ringArgs(s settings, g *ground, collective string) []string {
	argv := []string{s.gorun}
	if len(g.cpus) == 0 {
		argv = append(argv, "bench", collective, "--json", "--min", s.min.String(), "--max", s.max.String(), "--stepfactor", strconv.Itoa(step))
	}
	argv = append(argv, "-np", strconv.Itoa(s.np))
	if g.network != nil {
		argv = append(argv, g.network.flags()...)
	}
	transport := s.transport
	if transport != "shm" {
		transport = "tcp"
	}
	argv = append(argv, "-x", "RING_TRANSPORT="+transport)
	if s.streams > 1 {
		argv = append(argv, "-x", "RING_STREAMS="+strconv.Itoa(s.streams))
	}
	if len(g.cpus) == 0 {
		return append(argv, "--transport", transport)
	}
	opts, _ := json.Marshal(bench.Options{Collective: collective, Min: int(s.min), Max: int(s.max), Factor: step, Budget: 200e6}) // strings and numbers
	path, err := filepath.Abs(s.gorun)
	if err != nil {
		path = s.gorun
	}
	argv = append(argv, "--prefix", "none", "--stdin", "none", "--")
	return append(append(argv, g.wrapper()...), path, "__bench", string(opts))
}

// runRing keeps the out-of-place times, which the others measure too.
func runRing(cmd *exec.Cmd) (map[int]float64, error) {
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	times := map[int]float64{}
	for line := range bytes.Lines(out) {
		var row bench.Row
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, fmt.Errorf("printed %q: %w", line, err)
		}
		if row.Wrong > 0 {
			return nil, fmt.Errorf("%d wrong results of %d bytes", row.Wrong, row.Bytes)
		}
		if !row.InPlace {
			times[row.Bytes] = row.Median
		}
	}
	return times, nil
}

func output(cmd *exec.Cmd) ([]byte, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, &stderr)
	}
	return out, nil
}

// lines reads "bytes µs" lines.
func lines(cmd *exec.Cmd) (map[int]float64, error) {
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	return parse(string(out))
}

func parse(out string) (map[int]float64, error) {
	times := map[int]float64{}
	for line := range strings.Lines(out) {
		var size int
		var us float64
		if _, err := fmt.Sscan(line, &size, &us); err != nil {
			return nil, fmt.Errorf("printed %q", line)
		}
		times[size] = us
	}
	return times, nil
}

func runGloo(ctx context.Context, g *ground, program string, limits []string) (map[int]float64, error) {
	store, err := os.MkdirTemp(g.dir, "store-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	rank := func(r int) *exec.Cmd {
		return g.rank(ctx, r, append([]string{program, strconv.Itoa(r), strconv.Itoa(len(g.addrs)), store, g.addrs[r]}, limits...))
	}
	var others sync.WaitGroup
	for r := 1; r < len(g.addrs); r++ {
		others.Go(func() {
			if rank(r).Run() != nil {
				cancel() // rank 0 would wait for it
			}
		})
	}
	times, err := lines(rank(0))
	if err != nil {
		cancel()
	}
	others.Wait()
	cancel()
	return times, err
}

// runDuplex starts the end that listens, and when it says where, the other one.
func runDuplex(ctx context.Context, g *ground, program string, limits []string) (map[int]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	congestion := "reno" // as ring has it inside a host
	if g.network != nil {
		congestion = "-"
	}
	listener := g.rank(ctx, 0, append([]string{program, "listen", g.addrs[0] + ":0", congestion}, limits...))
	var stderr bytes.Buffer
	listener.Stderr = &stderr
	pipe, err := listener.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := listener.Start(); err != nil {
		return nil, err
	}
	out := bufio.NewReader(pipe)
	addr, err := out.ReadString('\n')
	if err != nil {
		cancel()
		return nil, fmt.Errorf("listen: %w: %s", listener.Wait(), &stderr)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := output(g.rank(ctx, 1, append([]string{program, "dial", strings.TrimSpace(addr), congestion}, limits...)))
		if err != nil {
			cancel()
		}
		failed <- err
	}()
	var text bytes.Buffer
	_, _ = text.ReadFrom(out) // what fails here fails in Wait too
	err = listener.Wait()
	if err != nil {
		cancel()
	}
	if other := <-failed; other != nil || err != nil {
		return nil, fmt.Errorf("listen: %v %s; dial: %v", err, &stderr, other)
	}
	return parse(text.String())
}
