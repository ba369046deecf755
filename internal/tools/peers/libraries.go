package main

import (
	"bytes"
	"context"
	"encoding/json"
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

// library is one implementation of the collectives.
type library struct {
	name   string
	source []string // argv that builds it; nil: nothing to build
	// run measures one size in bytes.
	run func(ctx context.Context, bytes int) (result, error)
}

// result is what processes of one library measured, in µs of one call.
type result struct {
	median, p99 float64 // of the slowest rank
	wire        float64 // of a plain socket that carries as many bytes both ways; 0: not measured
}

// budget is the time for which a library measures one size in a round.
const budget = 200 * time.Millisecond

// batch returns how many calls are timed together, the same for all libraries.
func batch(bytes int) int {
	if bytes <= 4<<10 {
		return 20
	}
	return 1
}

func (s library) build(ctx context.Context) error {
	if s.source == nil {
		return nil
	}
	if out, err := exec.CommandContext(ctx, s.source[0], s.source[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w %.300s", err, out)
	}
	return nil
}

// contenders are the libraries of a comparison. Ring is the first.
func contenders(s settings, g *ground) []library {
	program := func(name string) string { return filepath.Join("internal/tools/peers/programs", name) }
	built := func(name string) string { return filepath.Join(g.dir, name) }
	task := func(bytes int) []string {
		return []string{s.collective, strconv.Itoa(bytes), strconv.Itoa(batch(bytes)),
			strconv.FormatFloat(budget.Seconds(), 'f', -1, 64)}
	}
	ring := library{name: "ring", run: func(ctx context.Context, bytes int) (result, error) {
		opts := bench.Options{
			Collective: s.collective,
			Min:        bytes,
			Max:        bytes,
			Budget:     budget,
			Batch:      batch(bytes),
			Wire:       s.wire(),
		}
		rows, err := runRing(g.command(ctx, ringArgs(s, g, opts)))
		if err != nil {
			return result{}, err
		}
		return result{rows[0].Median, rows[0].P99, rows[0].WireTime}, nil
	}}
	mpi := func(name, suffix string, start ...string) library {
		return library{
			name:   name,
			source: []string{"mpicc." + suffix, "-O2", "-o", built(suffix), program("mpi.c")},
			run: func(ctx context.Context, bytes int) (result, error) {
				argv := slices.Concat(start, []string{"-np", strconv.Itoa(s.np)}, g.wrapper(), []string{built(suffix)},
					task(bytes))
				return read(g.command(ctx, argv))
			},
		}
	}
	openMPI := []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"}
	if s.transport == "tcp" {
		openMPI = append(openMPI, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include",
			"lo")
	}
	gloo := library{
		name:   "Gloo",
		source: []string{"g++", "-O2", "-o", built("gloo"), program("gloo.cc"), "-lgloo", "-lpthread"},
		run: func(ctx context.Context, bytes int) (result, error) {
			return runGloo(ctx, g, built("gloo"), task(bytes))
		},
	}
	all := []library{ring}
	if s.transport != "veth" {
		all = append(all, mpi("Open MPI", "openmpi", openMPI...))
	}
	if s.transport == "shm" {
		all = append(all, mpi("MPICH", "mpich", "mpiexec.mpich", "-bind-to", "none"))
	}
	all = append(all, gloo)
	return slices.DeleteFunc(all, func(c library) bool {
		return slices.Contains(strings.Split(s.without, ","), strings.ToLower(strings.ReplaceAll(c.name, " ", "")))
	})
}

// wire reports whether ring's speed can be compared with that of a plain socket: both send and
// receive the vector once.
func (s settings) wire() bool {
	return s.transport != "shm" && s.np == 2 && s.collective == "allreduce"
}

// ringArgs starts what `gorun bench` starts.
func ringArgs(s settings, g *ground, opts bench.Options) []string {
	argv := []string{s.gorun, "-np", strconv.Itoa(s.np)}
	if g.network != nil {
		argv = append(argv, "--start-timeout", "2m") // each host's agent starts on this machine
		argv = append(argv, g.network.flags(s.np)...)
	}
	transport := map[string]string{"shm": "shm", "tcp": "tcp", "veth": "tcp", "slow": "auto"}[s.transport]
	argv = append(argv, "-x", "RING_TRANSPORT="+transport, "-x", "RING_STREAMS="+strconv.Itoa(s.streams), "--prefix",
		"none", "--stdin", "none", "--")
	text, _ := json.Marshal(opts) // strings and numbers
	path, err := filepath.Abs(s.gorun)
	if err != nil {
		path = s.gorun
	}
	return append(append(argv, g.wrapper()...), path, "__bench", string(text))
}

// runRing returns the rows of calls out of place, which the others make too.
func runRing(cmd *exec.Cmd) (rows []bench.Row, err error) {
	out, err := output(cmd)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(out) {
		var row bench.Row
		if err := json.Unmarshal(line, &row); err != nil {
			return nil, fmt.Errorf("printed %q: %w", line, err)
		}
		if row.Wrong > 0 {
			return nil, fmt.Errorf("%d wrong results of %d bytes", row.Wrong, row.Bytes)
		}
		if !row.InPlace {
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("printed no row")
	}
	return rows, nil
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

// read runs a program that prints its median and its 99th percentile.
func read(cmd *exec.Cmd) (r result, err error) {
	out, err := output(cmd)
	if err != nil {
		return r, err
	}
	if _, err := fmt.Sscan(string(out), &r.median, &r.p99); err != nil {
		return r, fmt.Errorf("printed %q", out)
	}
	return r, nil
}

func runGloo(ctx context.Context, g *ground, program string, task []string) (result, error) {
	store, err := os.MkdirTemp(g.dir, "store-")
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	rank := func(r int) *exec.Cmd {
		return g.rank(ctx, r, append([]string{program, strconv.Itoa(r), strconv.Itoa(len(g.addrs)), store, g.addrs[r]},
			task...))
	}
	var others sync.WaitGroup
	for r := 1; r < len(g.addrs); r++ {
		others.Go(func() {
			if rank(r).Run() != nil {
				cancel() // rank 0 would wait for it
			}
		})
	}
	got, err := read(rank(0))
	if err != nil {
		cancel()
	}
	others.Wait()
	cancel()
	return got, err
}
