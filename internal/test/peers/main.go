// Command peers times ring and other libraries on this machine, on the same sizes and in a new order each round. It prints a
// Markdown table of the medians and draws them. A side that cannot be built is left out, with the reason.
//
//	go run ./internal/test/peers [-transport shm|tcp|veth] [-np 2] [-min 4] [-max 64M] [-runs 3] [-svg FILE] GORUN
//
// Transport shm is allreduce within one host, compared with Open MPI, MPICH and Gloo. Transport tcp runs over loopback TCP,
// compared with Gloo and, with two ranks, a plain socket that carries as many bytes both ways at once, which is the limit of TCP
// here. Transport veth is tcp between two network namespaces joined by a veth pair, and needs root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
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
	gorun     string
	transport string
	np        int
	min, max  size
	runs      int
	streams   int
	pin       bool
	svg       string
}

func main() {
	s := settings{min: 4, max: 64 << 20}
	flag.StringVar(&s.transport, "transport", "shm", "shm, tcp or veth")
	flag.IntVar(&s.np, "np", 2, "ranks")
	flag.Var(&s.min, "min", "smallest vector in bytes: 4, 1K, 1M; the next ones are 4 times as large each")
	flag.Var(&s.max, "max", "largest vector in bytes")
	flag.IntVar(&s.runs, "runs", 3, "times everything is run")
	flag.IntVar(&s.streams, "streams", 1, "TCP connections of ring between two ranks")
	flag.BoolVar(&s.pin, "pin", false, "keep each rank on one processor, on all sides; Gloo, with two threads a rank, is slow then")
	flag.StringVar(&s.svg, "svg", "", "also draw the medians into this file")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	s.gorun = flag.Arg(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := s.check()
	if err == nil {
		err = compare(ctx, s)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func (s settings) check() error {
	switch {
	case !slices.Contains([]string{"shm", "tcp", "veth"}, s.transport):
		return fmt.Errorf("-transport %q: it must be shm, tcp or veth", s.transport)
	case s.np < 2:
		return fmt.Errorf("-np %d: there is nothing to compare with fewer than 2 ranks", s.np)
	case s.transport == "veth" && s.np != 2:
		return fmt.Errorf("-np %d: -transport veth has 2 ranks, one in each namespace", s.np)
	case s.min < 4 || s.max < s.min || s.min%4 != 0:
		return fmt.Errorf("-min %d -max %d: sizes are multiples of 4 bytes", s.min, s.max)
	case s.runs < 1 || s.streams < 1:
		return fmt.Errorf("-runs %d -streams %d: there is at least 1", s.runs, s.streams)
	}
	return nil
}

// sizes returns the vectors to time, in bytes.
func (s settings) sizes() (all []int) {
	for bytes := int(s.min); bytes <= int(s.max); bytes *= step {
		all = append(all, bytes)
	}
	return all
}

// step is the factor between sizes. The programs use the same.
const step = 4

// compare runs all sides and reports.
func compare(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "gorun-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	g := &ground{dir: dir, addrs: slices.Repeat([]string{"127.0.0.1"}, s.np)}
	if s.transport == "veth" {
		if g.network, err = newNetwork(ctx, dir); err != nil {
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
	var sides []side
	for _, c := range contestants(s, g) {
		if err := c.build(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "peers: without %s: %v\n", c.name, err)
			continue
		}
		sides = append(sides, c)
	}
	about := machine(ctx, g) // reads the load before the benchmark adds to it
	samples, err := rounds(ctx, sides, s.runs)
	if err != nil {
		return err
	}
	return report{settings: s, about: about, sides: sides, samples: samples}.write(os.Stdout)
}

// rounds runs all sides in turn, each round starting with another one, so that none always follows the same. It returns the
// times of each side by size, one per round.
func rounds(ctx context.Context, sides []side, runs int) ([]map[int][]float64, error) {
	samples := make([]map[int][]float64, len(sides))
	for i := range samples {
		samples[i] = map[int][]float64{}
	}
	for round := range runs {
		for turn := range sides {
			i := (round + turn) % len(sides)
			ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
			got, err := sides[i].run(ctx)
			cancel()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", sides[i].name, err)
			}
			for bytes, us := range got {
				samples[i][bytes] = append(samples[i][bytes], us)
			}
		}
	}
	return samples, nil
}

// size is a number of bytes on the command line.
type size int

func (s *size) String() string { return strconv.Itoa(int(*s)) }

func (s *size) Set(text string) error {
	number, shift := strings.ToUpper(text), 0
	for i, unit := range []string{"K", "M", "G"} {
		if n, found := strings.CutSuffix(number, unit); found {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 1<<40>>shift {
		return errors.New("want bytes, such as 4, 64K or 256M")
	}
	*s = size(n << shift)
	return nil
}
