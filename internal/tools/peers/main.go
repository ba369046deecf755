// Command peers times a collective of ring and of other libraries on this machine. Each size is
// measured by processes of its own, in rounds in which the libraries take turns. It prints a
// Markdown table of the medians and draws them. A library that cannot be built is left out, with
// the reason.
//
//	go run ./internal/tools/peers -row NAME GORUN
//	go run ./internal/tools/peers [-collective allreduce] [-transport shm|tcp|veth] [-np 2] [-min 4] [-max 64M] [-runs 5] [-svg FILE] GORUN
//	go run ./internal/tools/peers -transport veth -rails 1gbit,400mbit [-min 4M] [-max 64M] [-runs 5] GORUN
//	go run ./internal/tools/peers -transport slow -hosts 16 -np 32 -delay 5ms -mbit 100 [-runs 3] GORUN
//	go run ./internal/tools/peers -slow 200 GORUN
//
// A row is a comparison with a goal; without a name -row lists them. Transport shm is within one
// host, compared with Open MPI, MPICH and Gloo. Transport tcp runs over loopback TCP, compared with
// Open MPI over TCP, Gloo and, with two ranks, a plain socket that ring's processes time in turns
// with the collective. Transport veth is tcp between two network namespaces joined by a veth pair,
// and needs root. -rails 1gbit,400mbit compares ring over several of them with ring over each.
// Transport slow compares ring between hosts whose links are slow, which package link emulates,
// with the least time that such links allow. -slow counts the measurements of small vectors that
// take several times the median of all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// settings is the command line.
type settings struct {
	gorun      string
	row        string
	collective string
	transport  string
	np         int
	min, max   size
	step       int
	runs       int
	streams    int
	slow       int
	rails      string
	links      links
	without    string
	pin        bool
	svg        string
}

func main() {
	s, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = compare(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

// parse reads the command line. Flags change the settings of a row.
func parse(args []string, usage io.Writer) (settings, error) {
	s := settings{
		collective: "allreduce",
		transport:  "shm",
		np:         2,
		min:        4,
		max:        64 << 20,
		step:       4,
		runs:       5,
		streams:    1,
	}
	typed := s.flags(usage)
	if err := typed.Parse(args); err != nil {
		return s, err
	}
	if s.row != "" {
		row, err := find(s.row)
		if err != nil {
			return s, err
		}
		named := row.settings
		again := named.flags(usage)
		typed.Visit(func(f *flag.Flag) { err = errors.Join(err, again.Set(f.Name, f.Value.String())) })
		if err != nil {
			return s, err
		}
		s = named
	}
	if typed.NArg() != 1 {
		return s, errors.New("give the path of gorun, such as bin/gorun")
	}
	s.gorun = typed.Arg(0)
	return s, s.check()
}

// flags returns flags that set s and have its values as defaults.
func (s *settings) flags(usage io.Writer) *flag.FlagSet {
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.SetOutput(usage)
	f.StringVar(&s.row, "row", s.row, "a comparison with a goal: "+strings.Join(names(), ", "))
	f.StringVar(&s.collective, "collective", s.collective, "allreduce, allgather, reducescatter or alltoall")
	f.StringVar(&s.transport, "transport", s.transport, "shm, tcp, veth or slow")
	f.IntVar(&s.np, "np", s.np, "ranks")
	f.Var(&s.min, "min", "smallest vector in bytes: 4, 1K, 1M")
	f.Var(&s.max, "max", "largest vector in bytes")
	f.IntVar(&s.step, "step", s.step, "factor between sizes")
	f.IntVar(&s.runs, "runs", s.runs, "rounds")
	f.IntVar(&s.streams, "streams", s.streams, "TCP connections of ring between two ranks")
	f.IntVar(&s.slow, "slow", s.slow, "count slow measurements of ring among so many, instead")
	f.StringVar(&s.rails, "rails", s.rails,
		"rates of veth pairs, such as 1gbit,400mbit: compare ring over all of them with each, instead")
	f.IntVar(&s.links.hosts, "hosts", s.links.hosts, "hosts of -transport slow")
	f.DurationVar(&s.links.delay, "delay", s.links.delay, "what a frame takes from host to host")
	f.Float64Var(&s.links.mbit, "mbit", s.links.mbit, "Mb/s of each host's link, in each direction")
	f.Float64Var(&s.links.slowest, "slowest", s.links.slowest, "Mb/s of the second host's link; 0: as the others'")
	f.StringVar(&s.without, "without", s.without, "libraries to leave out: openmpi, mpich, gloo")
	f.BoolVar(&s.pin, "pin", s.pin, "keep each rank on one processor, for all libraries; Gloo, with two threads a "+
		"rank, "+
		"is slow then")
	f.StringVar(&s.svg, "svg", s.svg, "also draw the medians into this file")
	return f
}

func (s settings) check() error {
	switch {
	case !slices.Contains([]string{"allreduce", "allgather", "reducescatter", "alltoall"}, s.collective):
		return fmt.Errorf("-collective %q: it must be allreduce, allgather, reducescatter or alltoall", s.collective)
	case !slices.Contains([]string{"shm", "tcp", "veth", "slow"}, s.transport):
		return fmt.Errorf("-transport %q: it must be shm, tcp, veth or slow", s.transport)
	case s.transport == "slow":
		return s.links.check(s.np)
	case s.np < 2:
		return fmt.Errorf("-np %d: there is nothing to compare with fewer than 2 ranks", s.np)
	case s.transport == "veth" && s.np != 2:
		return fmt.Errorf("-np %d: -transport veth has 2 ranks, one in each namespace", s.np)
	case s.min < 4 || s.max < s.min || s.min%4 != 0:
		return fmt.Errorf("-min %d -max %d: sizes are multiples of 4 bytes", s.min, s.max)
	case s.rails != "" && s.transport != "veth":
		return errors.New("-rails needs -transport veth")
	case s.step < 2:
		return fmt.Errorf("-step %d: it must be at least 2", s.step)
	case s.runs < 1 || s.streams < 1 || s.slow < 0:
		return fmt.Errorf("-runs %d -streams %d -slow %d: there is at least 1", s.runs, s.streams, s.slow)
	}
	return nil
}

// sizes returns the vectors to time, in bytes.
func (s settings) sizes() (all []int) {
	for bytes := int(s.min); bytes <= int(s.max); bytes *= s.step {
		all = append(all, bytes)
	}
	return all
}

// compare runs all libraries and reports.
func compare(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "gorun-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g := &ground{dir: dir, addrs: slices.Repeat([]string{"127.0.0.1"}, s.np), turn: 1}
	if s.transport == "slow" {
		return s.compareLinks(ctx, os.Stdout, g)
	}
	if s.transport == "veth" {
		if g.network, err = newNetwork(ctx, dir, 2, pairs(strings.Split(s.rails, ",")...)); err != nil {
			return fmt.Errorf("two network namespaces: %w", err)
		}
		defer func() { err = errors.Join(err, g.network.close()) }()
		g.addrs = []string{g.network.hosts[0].addr, g.network.hosts[1].addr}
	}
	if s.pin {
		if g.cpus, err = allowed(); err != nil {
			return fmt.Errorf("-pin: %w", err)
		}
	}
	about := machine(ctx, g) // reads the load before the benchmark adds to it
	if s.slow > 0 {
		return countSlow(ctx, os.Stdout, s, g, about)
	}
	if s.rails != "" {
		return compareRails(ctx, os.Stdout, s, g, about)
	}
	var libraries []library
	for _, c := range contenders(s, g) {
		if err := c.build(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "peers: without %s: %v\n", c.name, err)
			continue
		}
		libraries = append(libraries, c)
	}
	results, err := measure(ctx, s, libraries)
	if err != nil {
		return err
	}
	return report{
		settings:  s,
		about:     about,
		libraries: libraries,
		results:   results,
	}.write(os.Stdout)
}

// measure returns the results of each library by size. All libraries measure a size before the next
// one, and each round starts with another library, so that none always follows the same.
func measure(ctx context.Context, s settings, libraries []library) ([]map[int]result, error) {
	results := make([]map[int]result, len(libraries))
	for i := range results {
		results[i] = map[int]result{}
	}
	for _, bytes := range s.sizes() {
		rounds := make([][]result, len(libraries))
		for round := range s.runs {
			for turn := range libraries {
				i := (round + turn) % len(libraries)
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				got, err := libraries[i].run(ctx, bytes)
				cancel()
				if err != nil {
					return nil, fmt.Errorf("%s, %d bytes: %w", libraries[i].name, bytes, err)
				}
				rounds[i] = append(rounds[i], got)
			}
		}
		for i := range libraries {
			results[i][bytes] = middle(rounds[i])
		}
	}
	return results, nil
}

// size is a number of bytes on the command line.
type size int

func (s *size) String() string { return strconv.Itoa(int(*s)) }

func (s *size) Set(text string) error {
	number := strings.ToUpper(text)
	shift := 0
	for i, unit := range []string{"K", "M", "G"} {
		if n, found := strings.CutSuffix(number, unit); found {
			number = n
			shift = 10 * (i + 1)
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 1<<40>>shift {
		return errors.New("want bytes, such as 4, 64K or 256M")
	}
	*s = size(n << shift)
	return nil
}
