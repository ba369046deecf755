package link

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
)

// Network joins hosts as one Ethernet. Its methods may be called concurrently, but none after
// Close.
type Network struct {
	seed  uint64
	bell  int           // an eventfd that ends waits of the carrier
	ended chan struct{} // the carrier has returned

	mu      sync.Mutex
	ports   []*Port
	at      map[address]*Port // where addresses were seen
	paths   map[[2]*Port]*line
	lines   uint64 // so far; they number the seeds
	frames  schedule
	number  uint64 // of frames so far
	stats   Stats
	closing bool
	failed  error
}

// Port is where a host is joined.
type Port struct {
	network *Network
	fd      int // of the TAP
	out, in *line
	gone    bool // somebody has removed the interface
}

// Stats counts frames.
type Stats struct {
	Delivered int
	Dropped   int           // by lines, and by hosts that took none
	Late      time.Duration // by how much frames were delivered after their time, on average
	Latest    time.Duration // the most
}

// New starts an empty network. Close ends it.
func New(seed uint64) (*Network, error) {
	n := &Network{
		seed:  seed,
		ended: make(chan struct{}),
		at:    map[address]*Port{},
		paths: map[[2]*Port]*line{},
	}
	var err error
	if n.bell, err = makeBell(); err != nil {
		return nil, fmt.Errorf("starting the link emulator: %w", err)
	}
	go n.carry()
	return n, nil
}

// Join gives the host whose network namespace is the file namespace an interface with that address.
// It can be used at once.
func (n *Network) Join(namespace, name string, addr netip.Prefix) (*Port, error) {
	fd, err := openTAP(namespace, name, addr)
	if err != nil {
		return nil, fmt.Errorf("making interface %s in %s: %w", name, namespace, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &Port{
		network: n,
		fd:      fd,
		out:     n.newLine(Line{}),
		in:      n.newLine(Line{}),
	}
	n.ports = append(n.ports, p)
	n.ring()
	return p, errors.Join(n.failed, n.tune())
}

// Out sets the line from the host to all others.
func (p *Port) Out(l Line) { p.set(p.out, l) }

// In sets the line from all others to the host.
func (p *Port) In(l Line) { p.set(p.in, l) }

func (p *Port) set(at *line, l Line) {
	p.network.mu.Lock()
	defer p.network.mu.Unlock()
	at.Line = l
	p.network.note(p.network.tune())
}

// Path sets what lies between two hosts in one direction, beyond the Out of the one and before the
// In of the other.
func (n *Network) Path(from, to *Port, l Line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.path(from, to).Line = l
	n.note(n.tune())
}

// Stats returns what was counted since it was last called.
func (n *Network) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.stats
	n.stats = Stats{}
	if s.Delivered > 0 {
		s.Late /= time.Duration(s.Delivered)
	}
	return s
}

// Close ends the network and its interfaces, and returns what went wrong while it ran.
func (n *Network) Close() error {
	n.mu.Lock()
	n.closing = true
	n.ring()
	n.mu.Unlock()
	<-n.ended
	return errors.Join(n.failed, n.release())
}

func (n *Network) newLine(l Line) *line {
	n.lines++
	return &line{Line: l, random: rand.New(rand.NewPCG(n.seed, n.lines))}
}

func (n *Network) path(from, to *Port) *line {
	key := [2]*Port{from, to}
	if n.paths[key] == nil {
		n.paths[key] = n.newLine(Line{})
	}
	return n.paths[key]
}

// lossy reports whether any line loses frames.
func (n *Network) lossy() bool {
	for _, p := range n.ports {
		if p.out.Loss > 0 || p.in.Loss > 0 {
			return true
		}
	}
	for _, l := range n.paths {
		if l.Loss > 0 {
			return true
		}
	}
	return false
}

// note keeps the first error.
func (n *Network) note(err error) {
	if n.failed == nil {
		n.failed = err
	}
}

// enter takes a frame from its sender's TAP. A frame to several hosts, or to one that was not seen
// yet, goes to all.
func (n *Network) enter(data []byte, from *Port, now time.Time) {
	if len(data) < headSize+14 {
		return
	}
	f := frame{data: data, size: wireSize(data), from: from}
	n.at[f.source()] = from
	at, ok := from.out.pass(now, f.size)
	if !ok {
		n.stats.Dropped++
		return
	}
	to, known := n.at[f.target()]
	for _, p := range n.ports {
		if p != from && !p.gone && (p == to || !known || f.target().group()) {
			n.number++
			copied := f
			copied.to = p
			copied.passed = 1
			copied.at = at
			copied.number = n.number
			n.frames.add(&copied)
		}
	}
}

// goOn carries frames whose time has come, and returns when the next one's comes.
func (n *Network) goOn(now time.Time) (next time.Time, some bool) {
	for f := n.frames.due(now); f != nil; f = n.frames.due(now) {
		if f.passed == 3 {
			n.deliver(f, now)
			continue
		}
		l := f.to.in
		if f.passed == 1 {
			l = n.path(f.from, f.to)
		}
		at, ok := l.pass(f.at, f.size)
		if !ok {
			n.stats.Dropped++
			continue
		}
		f.passed++
		f.at = at
		n.frames.add(f)
	}
	if len(n.frames) == 0 {
		return time.Time{}, false
	}
	return n.frames[0].at, true
}

func (n *Network) deliver(f *frame, now time.Time) {
	if f.to.write(f.data) != nil {
		n.stats.Dropped++ // the interface is down
		return
	}
	late := now.Sub(f.at)
	n.stats.Delivered++
	n.stats.Late += late
	n.stats.Latest = max(n.stats.Latest, late)
}
