package relay

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	maxAddrs = 16 // limit of a host's addresses
	// idleTime is how long a host may take less than leastBytes of the file. It is longer than
	// several peers can starve a host.
	idleTime = 5 * time.Minute
	hashRate = 50 << 20 // bytes per second at least of which a host checks the file that it has
	// finishRate is the bytes per second at least of which a host makes what the file is for.
	finishRate = 4 << 20
)

// Host is the launcher's connection with an agent. Its methods may be called concurrently.
type Host interface {
	Name() string
	Send(t wire.Type, message any)
	// Piece sends bytes of the file. It blocks while the host is slow, and returns io.ErrClosedPipe
	// once the connection is closed.
	Piece(data []byte) error
	// Next returns the agent's next frame. An error that the agent reports is an error.
	Next() (wire.Frame, error)
	Cancel()
}

// Delivered describes the delivery of a file to a host.
type Delivered struct {
	Path string
	Had  int64  // bytes that the host had before
	Fed  int64  // bytes that the launcher sent
	From string // last host that sent it; "": the launcher
}

// Group is hosts that get one file. They may join while others have part of it, or all. It is safe
// for concurrent use.
type Group struct {
	src   *Source
	place wire.Place
	trace func(format string, args ...any)
	warn  func(string)
	id    string
	key   []byte
	idle  time.Duration
	meter Meter // meter of all hosts

	mu      sync.Mutex
	absent  int // hosts that have neither joined nor failed
	joined  int // number of the next member
	members []*recipient
	order   []*recipient // members that listen, in the order of their reports: each may fetch from earlier ones
}

// recipient is a member of a group, as the launcher knows it.
type recipient struct {
	host     Host
	number   int
	addrs    []netip.AddrPort
	cert     []byte
	settled  bool          // whether the member has the file or has failed
	gone     bool          // whether the member has failed or stopped listening
	lied     bool          // whether the member sent another file
	blames   map[int]int   // number of complaints of the member, by member
	released chan struct{} // closed when all members are settled
}

// NewGroup returns a group that gets a file. It is not over before that many hosts have joined, or
// were missed. warn gets a line about a host that cannot be trusted, trace the details.
func NewGroup(src *Source, place wire.Place, hosts int, trace func(format string, args ...any),
	warn func(string)) *Group {
	g := &Group{
		src:    src,
		place:  place,
		trace:  trace,
		warn:   warn,
		id:     rand.Text(),
		key:    make([]byte, sha256.Size),
		idle:   idleTime,
		absent: hosts,
		meter:  NoMeter{},
	}
	rand.Read(g.key)
	return g
}

// Count tells a meter how many bytes hosts lack when they join, and how many then come to them. It
// is called before the first host joins.
func (g *Group) Count(meter Meter) { g.meter = meter }

// Miss reports that one of the hosts will not join.
func (g *Group) Miss() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.absent--
	g.release()
}

// Deliver brings the file to a host, which others may reach at addrs, and returns when all members
// of the group have it or have failed.
func (g *Group) Deliver(host Host, addrs []netip.Addr) (d Delivered, err error) {
	s := g.join(host)
	d, err = g.deliver(s, addrs)
	g.mu.Lock()
	defer g.mu.Unlock()
	s.settled = true
	s.gone = true
	g.release()
	return d, err
}

func (g *Group) join(host Host) *recipient {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &recipient{
		host:     host,
		number:   g.joined,
		released: make(chan struct{}),
		blames:   map[int]int{},
	}
	g.joined++
	g.absent--
	g.members = append(g.members, s)
	return s
}

// release lets all members go if all are settled.
func (g *Group) release() {
	for _, s := range g.members {
		if !s.settled || g.absent > 0 {
			return
		}
	}
	for _, s := range g.members {
		close(s.released)
	}
	g.members = nil
	g.order = nil
}

func (g *Group) deliver(s *recipient, addrs []netip.Addr) (d Delivered, err error) {
	offer := g.src.Offer(g.place)
	offer.Group = g.id
	offer.Member = s.number
	offer.Key = g.key
	offer.Addrs = addrs[:min(len(addrs), maxAddrs)]
	s.host.Send(wire.TypeOffer, offer)
	watch := g.watch(s.host, time.Duration(g.src.size/hashRate)*time.Second)
	defer func() { err = watch.end(err) }()
	f, err := s.host.Next()
	if err != nil {
		return d, err
	}
	var o wire.Offered
	if err := f.Expect(wire.TypeOffered, &o); err != nil {
		return d, err
	}
	if o.Have < 0 || o.Have > g.src.size || len(o.Addrs) > maxAddrs || len(o.Cert) > sha256.Size ||
		len(o.Addrs) > 0 && len(o.Cert) < sha256.Size {
		return d, &wire.FormatError{Reason: fmt.Sprintf("%d bytes of %d are there, and %d addresses", o.Have,
			g.src.size, len(o.Addrs))}
	}
	for i, at := range o.Addrs {
		if !listens(at, addrs) {
			return d, &wire.FormatError{Reason: fmt.Sprintf("the host says that it listens on %.100s, which it was "+
				"not asked for", at)}
		}
		// Other hosts hear of it. A zone is of any length, and says nothing to them.
		o.Addrs[i] = netip.AddrPortFrom(at.Addr().WithZone(""), at.Port())
	}
	d.Had = o.Have
	s.host.Send(wire.TypePeers, g.introduce(s, o))
	var feeding sync.WaitGroup
	defer feeding.Wait()
	defer func() {
		if err != nil {
			s.host.Cancel()
		}
	}()
	have := o.Have
	g.meter.Expect(g.src.size - have)
	settled := o.Have == g.src.size
	watch.has(have)
	for !settled {
		p, err := next(s.host, g.src.size, have)
		if err != nil {
			return d, err
		}
		d.From = g.heard(s, p)
		g.meter.Add(p.Have - have)
		have = p.Have
		watch.has(have)
		switch {
		case p.Feed && d.Fed > 0:
			return d, &wire.FormatError{Reason: "the host asked for the file twice"}
		case p.Feed:
			d.Fed = g.src.size - p.Have
			feeding.Go(func() { g.feed(s.host, p.Have) })
		}
		settled = have == g.src.size
	}
	_ = watch.end(nil)
	g.settle(s)
	<-s.released
	s.host.Send(wire.TypeEnough, nil)
	watch = g.watch(s.host, time.Duration(g.src.size/finishRate)*time.Second)
	watch.finishing = true
	for {
		p, err := next(s.host, g.src.size, 0)
		if err != nil {
			return d, err
		}
		if p.Done {
			d.Path = string(p.Path)
			return d, nil
		}
	}
}

// listens reports whether a host may have opened a port that it offers, on one of the addresses
// that it was asked for. Other hosts connect to it.
func listens(at netip.AddrPort, asked []netip.Addr) bool {
	return at.Port() >= secure.FirstPort && slices.ContainsFunc(asked, func(ip netip.Addr) bool {
		return ip.Unmap().WithZone("") == at.Addr().Unmap().WithZone("")
	})
}

// watcher cancels a host that takes next to nothing of the file, and so holds all others up.
type watcher struct {
	idle      time.Duration
	least     int64
	timer     *time.Timer
	fired     atomic.Bool
	finishing bool // whether the host has all of the file
}

// watch begins to watch a host, which may be idle for more than usual, by more, before its first
// bytes.
func (g *Group) watch(host Host, more time.Duration) *watcher {
	w := &watcher{idle: g.idle, least: 0}
	w.timer = time.AfterFunc(g.idle+more, func() {
		w.fired.Store(true)
		host.Cancel()
	})
	return w
}

// has records how many bytes the host has.
func (w *watcher) has(bytes int64) {
	if bytes >= w.least && w.timer.Stop() {
		w.least = bytes + leastBytes
		w.timer.Reset(w.idle)
	}
}

// end ends the watch and explains the error that it has led to.
func (w *watcher) end(err error) error {
	w.timer.Stop()
	switch {
	case err == nil || !w.fired.Load():
		return err
	case w.finishing:
		return fmt.Errorf("it has all of the file, and is not done with it in %v", w.idle)
	}
	return fmt.Errorf("it has taken less than %d KiB of the file in %v", leastBytes>>10, w.idle)
}

// next returns a host's next report, in which it has so much at least.
func next(host Host, size, least int64) (p wire.Passed, err error) {
	f, err := host.Next()
	if err != nil {
		return p, err
	}
	if err := f.Expect(wire.TypePassed, &p); err != nil {
		return p, err
	}
	if p.Have < least || p.Have > size || len(p.Path) > wire.MaxPath ||
		p.Done && len(p.Path) == 0 {
		return p, &wire.FormatError{Reason: fmt.Sprintf("%d bytes of %d are there, after %d", p.Have, size, least)}
	}
	return p, nil
}

// introduce makes a member known to those that it may fetch from, and returns them: the last before
// it, and fewer of the earlier ones.
func (g *Group) introduce(s *recipient, o wire.Offered) wire.Peers {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.addrs = o.Addrs
	s.cert = o.Cert
	var earlier []*recipient
	for _, m := range g.order {
		if len(m.addrs) > 0 && !m.gone && !m.lied {
			earlier = append(earlier, m)
		}
	}
	g.order = append(g.order, s)
	peers := wire.Peers{Whole: true}
	for back := 1; back <= len(earlier); back *= 2 {
		m := earlier[len(earlier)-back]
		m.host.Send(wire.TypePeers, wire.Peers{Peers: []wire.Peer{{Member: s.number, Cert: s.cert}}})
		peers.Peers = append(peers.Peers, wire.Peer{Member: m.number, Addrs: m.addrs, Cert: m.cert})
	}
	return peers
}

// heard traces a member's report and returns the name of the host that it fetches from.
func (g *Group) heard(s *recipient, p wire.Passed) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := s.host.Name()
	from := ""
	for _, m := range g.members {
		if m.number == p.From {
			from = m.host.Name()
		}
		if b := p.Blamed; b != nil && m.number == b.Member && m != s && s.blames[b.Member] < maxFailures {
			s.blames[b.Member]++
			g.trace("%s: fetching from %s: %.300s, after %d bytes", name, m.host.Name(), b.Why, p.Have)
			if b.Lied {
				s.blames[b.Member] = maxFailures
				m.lied = true
				g.warn(fmt.Sprintf("%s says that %s sent it other bytes than the file's: it takes them from another "+
					"host", name, m.host.Name()))
			}
		}
	}
	return from
}

func (g *Group) settle(s *recipient) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.settled = true
	g.release()
}

// feed sends the file to a host from an offset on.
func (g *Group) feed(host Host, at int64) {
	g.trace("%s: sending it the file, from byte %d", host.Name(), at)
	data := make([]byte, wire.MaxData)
	in := g.src.From(at)
	for {
		n, err := in.Read(data)
		if n > 0 {
			if host.Piece(data[:n]) != nil {
				return // its reader sees the end
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			if in.Size() > 0 && n == 0 && shrunk(g.src) {
				g.warn("the file became shorter while it was sent")
				host.Cancel()
			}
			return
		case err != nil:
			g.warn(fmt.Sprintf("read the file: %v", err))
			host.Cancel()
			return
		}
	}
}

// shrunk reports whether a file has less bytes than it had.
func shrunk(s *Source) bool {
	info, err := s.file.Stat()
	return err != nil || info.Size() < s.size
}

// Meter hears of bytes that are to come, and of those that have come. It is safe for concurrent
// use.
type Meter interface {
	Expect(bytes int64) // fewer than 0 are not to come after all
	Add(bytes int64)
}

// NoMeter hears of nothing.
type NoMeter struct{}

// Expect does nothing.
func (NoMeter) Expect(int64) {}

// Add does nothing.
func (NoMeter) Add(int64) {}
