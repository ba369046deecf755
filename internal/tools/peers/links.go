package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/netip"
	"time"

	"github.com/gorun/gorun/internal/tools/link"
)

// links are what joins the hosts of -transport slow.
type links struct {
	hosts   int
	delay   time.Duration
	mbit    float64 // each host's, in each direction
	slowest float64 // the second host's; 0: as the others'
}

func (l links) check(ranks int) error {
	switch {
	case l.hosts < 2 || l.hosts > 200 || ranks%l.hosts != 0:
		return fmt.Errorf("-hosts %d -np %d: there are 2 to 200 hosts, with equally many ranks", l.hosts, ranks)
	case l.delay < 0 || l.mbit <= 0 || l.slowest < 0:
		return fmt.Errorf("-delay %v -mbit %g -slowest %g: a link has a rate", l.delay, l.mbit, l.slowest)
	}
	return nil
}

// rate returns the rate of host i, in Mb/s.
func (l links) rate(i int) float64 {
	if i == 1 && l.slowest > 0 {
		return l.slowest
	}
	return l.mbit
}

// least returns the time in µs below which no allreduce of so many bytes can be: each host's part
// crosses the network in log2 rounds at least, and each host sends and receives nearly twice the
// vector.
func (l links) least(bytes int) float64 {
	rate := l.mbit
	for i := range l.hosts {
		rate = min(rate, l.rate(i))
	}
	crossings := float64(bits.Len(uint(l.hosts - 1)))
	carried := 2 * float64(l.hosts-1) / float64(l.hosts) * float64(bytes)
	return max(crossings*float64(l.delay.Microseconds()), carried*8/rate)
}

// linkLimit is far more than a run takes.
const linkLimit = 10 * time.Minute

// compareLinks prints ring's times between hosts with slow links, beside the least that the links
// allow.
func (s settings) compareLinks(ctx context.Context, w io.Writer, g *ground) (err error) {
	emulated, err := link.New(1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, emulated.Close()) }()
	if g.network, err = newNetwork(ctx, g.dir, s.links.hosts, s.links.join(emulated)); err != nil {
		return fmt.Errorf("%d network namespaces: %w", s.links.hosts, err)
	}
	defer func() { err = errors.Join(err, g.network.close()) }()
	if s.pin {
		if g.cpus, err = allowed(); err != nil {
			return fmt.Errorf("-pin: %w", err)
		}
		g.turn = s.np / s.links.hosts // all ranks of a host, which has one processor then
	}
	text := fmt.Sprintf("%s; allreduce of %d ranks on %d hosts, %v from host to host, %g Mb/s each way; frames late: "+
		"what the emulator adds to the delay, average and most\n\n"+
		"| bytes | ms | least ms | time / least | least / time | frames late, ms | most "+
		"|\n|---|---|---|---|---|---|---|\n",
		machine(ctx, g), s.np, s.links.hosts, s.links.delay, s.links.mbit)
	worst := 0.0
	for _, bytes := range s.sizes() {
		var times []float64
		emulated.Stats()
		for range s.runs {
			us, err := timeRing(ctx, s, g, bytes, linkLimit)
			if err != nil {
				return fmt.Errorf("%d bytes: %w", bytes, err)
			}
			times = append(times, us)
		}
		took := median(times)
		least := s.links.least(bytes)
		late := emulated.Stats()
		worst = max(worst, took/least)
		text += fmt.Sprintf("| %d | %.2f | %.2f | %.2f | %.2f | %.3f | %.3f |\n", bytes, took/1e3, least/1e3,
			took/least, least/took, late.Late.Seconds()*1e3, late.Latest.Seconds()*1e3)
	}
	if goal, err := find(s.row); err == nil {
		text += fmt.Sprintf("\n%s: %.2f of what the links allow at worst; the goal is %g\n", s.row, 1/worst, goal.goal)
	}
	_, err = io.WriteString(w, text)
	return err
}

// join gives each host an interface of an emulated network.
func (l links) join(emulated *link.Network) func(context.Context, *network) error {
	return func(_ context.Context, n *network) error {
		for i, h := range n.hosts {
			port, err := emulated.Join(fmt.Sprintf("/proc/%d/ns/net", h.pid), n.use,
				netip.PrefixFrom(netip.MustParseAddr(h.addr), 16))
			if err != nil {
				return err
			}
			rate := l.rate(i) * 1e6
			port.Out(link.Line{Delay: l.delay, Rate: rate})
			port.In(link.Line{Rate: rate})
		}
		return nil
	}
}
