package probe

import (
	"bufio"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/rankenv"
)

const (
	patience   = 20 * time.Second      // bound on the slowest host's measurement of itself
	settling   = 50 * time.Millisecond // time between the first and the last host that a fence releases
	leastPings = 5                     // minimum of pings if time permits: one may wait for a core
	maxPings   = 200
	chunk      = 256 << 10
)

// The streams of a pair of hosts.
const (
	messages = iota // messages both ways
	deliver         // data from the dialer
	fetch           // data from the acceptor
	purposes        // number of purposes
)

// card is a probe's message to all others.
type card struct {
	Addr    string         `json:"addr"`
	Key     []byte         `json:"key"` // public key of X25519
	Machine doctor.Machine `json:"machine"`
}

// delivery is the acceptor's report about the data.
type delivery struct {
	Rate   float64 `json:"rate"`   // rate of the dialer's data in bytes per second
	Idle   bool    `json:"idle"`   // whether no byte arrived in the whole time
	Sent   int64   `json:"sent"`   // segments of the acceptor's data
	Resent int64   `json:"resent"` // retransmitted segments of the acceptor's data
	Into   string  `json:"into"`   // interface at which the dialer reached the acceptor
	Back   string  `json:"back"`   // interface by which the acceptor's kernel sends to the dialer
}

// party is one probe of the job.
type party struct {
	self      rankenv.Rank
	now       func() time.Time
	patience  time.Duration // how long other hosts are still waited for
	listener  net.Listener
	cards     []card
	machines  []doctor.Machine
	group     *secure.Authenticator
	timetable doctor.Timetable
	window    time.Duration // time for data in one direction

	interfaces interfaces

	mu     sync.Mutex
	states map[int]*transfer // transfers by the dialer's rank
}

// transfer is the data that passes between this probe and one that dials.
type transfer struct {
	delivery
	taken, given bool          // whether the dialer has come for each: it may come again
	came, went   chan struct{} // closed when the dialer's and the acceptor's data have passed
}

// gather waits for the probes of all hosts. It returns on all of them at about the same time.
func gather(ctx context.Context, plan doctor.Plan, self rankenv.Rank, in Surroundings) (p *party, err error) {
	listener, err := in.Listen(ctx, net.JoinHostPort(self.Addr, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for the other hosts: %w", err)
	}
	defer func() {
		if err != nil {
			_ = listener.Close()
		}
	}()
	own, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	p = &party{
		self:       self,
		patience:   in.Patience,
		now:        in.Now,
		listener:   listener,
		states:     map[int]*transfer{},
		interfaces: localInterfaces(),
	}
	values, err := p.fence(ctx, "cards", card{listener.Addr().String(), own.PublicKey().Bytes(), in.Machine()}, 0)
	if err != nil {
		return nil, err
	}
	for _, v := range values {
		c := cardOf(v)
		p.cards = append(p.cards, c)
		p.machines = append(p.machines, c.Machine)
	}
	if p.group, err = secure.NewPlainAuthenticator(secure.Identity{
		Job:  "doctor",
		Rank: self.Rank,
		Size: len(p.cards),
	}, purposes, secrets(own, p.cards)); err != nil {
		return nil, err
	}
	p.timetable = plan.Timetable(p.machines)
	p.window = p.timetable.Turn / 4
	return p, nil
}

// secrets returns what this probe shares with each other one, and nobody else knows: the agents
// carry public keys, each as that of its rank. There is none with a host whose card has no key.
func secrets(own *ecdh.PrivateKey, cards []card) [][]byte {
	all := make([][]byte, len(cards))
	for rank, c := range cards {
		if theirs, err := ecdh.X25519().NewPublicKey(c.Key); err == nil {
			all[rank], _ = own.ECDH(theirs) // nil for a key that makes no secret
		}
	}
	return all
}

// cardOf decodes a probe's card. A host that gives none has no address, and fails its own links
// only.
func cardOf(value []byte) (c card) {
	if json.Unmarshal(value, &c) != nil {
		return card{}
	}
	return c
}

// wait waits until all hosts are ready for something, and a time longer than usual for those that
// are slow.
func (p *party) wait(ctx context.Context, what string, longer time.Duration) error {
	_, err := p.fence(ctx, what, nil, longer)
	return err
}

// fence waits for all hosts at a fence. It takes from the patience what it lasts beyond longer.
func (p *party) fence(ctx context.Context, name string, value any, longer time.Duration) ([]json.RawMessage, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.patience+longer)
	defer cancel()
	values, err := fence(ctx, p.self, name, value)
	p.patience -= max(time.Since(began)-longer, 0)
	return values, err
}

// meet measures the links to the other hosts in turns, of which the lower rank dials and reports.
// All begin a turn at about the same time, since a fence ends at the same time for all, and none
// lasts longer than it may. A host that gets no core until all turns are over measures fewer links,
// which is no error.
func (p *party) meet(whole context.Context, found func(Line)) error {
	began := time.Now().Add(settling)
	end := began.Add(p.timetable.Length())
	ctx, stop := context.WithDeadline(whole, end.Add(p.timetable.Turn))
	defer stop()
	var work sync.WaitGroup
	work.Go(func() { p.serve(ctx) })
	defer work.Wait()
	defer p.listener.Close()
	for place, turn := range p.timetable.Turns {
		for _, pair := range turn {
			if !slices.Contains(pair[:], p.self.Rank) {
				continue
			}
			start := began.Add(time.Duration(place) * p.timetable.Turn)
			if !sleepUntil(ctx, start) {
				return whole.Err()
			}
			waiting := startWait(start)
			until := start.Add(p.timetable.Turn)
			if pair[0] == p.self.Rank {
				link := p.measure(ctx, pair[1], until)
				link.Busy = waiting.share()
				found(Line{Link: &link})
			} else {
				sleepUntil(ctx, until)
				found(Line{Waited: &Waited{From: pair[0], Share: waiting.share()}})
			}
		}
	}
	sleepUntil(ctx, end)
	return nil
}

func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// dial connects to a probe for a purpose.
func (p *party) dial(ctx context.Context, rank, why int, until time.Time) (net.Conn, error) {
	at, err := p.address(rank)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	conn, err := p.group.Reach(ctx, net.Dialer{}, at, rank, why)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(until); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// address returns the address at which another host says that it listens.
func (p *party) address(rank int) (at netip.AddrPort, err error) {
	if at, err = netip.ParseAddrPort(p.cards[rank].Addr); err != nil {
		return at, err
	}
	own := p.listener.Addr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	if len(secure.Dialable([]netip.AddrPort{at}, []netip.Addr{own})) == 0 {
		return at, errors.New("it says that it listens where it cannot")
	}
	return at, nil
}

// measure measures the link to another host until the deadline.
func (p *party) measure(ctx context.Context, other int, until time.Time) (link doctor.Link) {
	link = doctor.Link{From: p.self.Rank, To: other}
	conn, err := p.dial(ctx, other, messages, until)
	if err != nil {
		link.Error = plain(err)
		return link
	}
	defer conn.Close()
	link.Over = p.interfaces.of(conn.LocalAddr())
	if err := p.ping(conn, &link, until); err != nil {
		link.Error = plain(err)
		return link
	}
	sent := p.send(ctx, other, &link, until)
	got, idle := p.get(ctx, other, &link, until)
	link.In = got
	var theirs delivery
	if _, err = conn.Write([]byte{'R'}); err == nil {
		err = json.NewDecoder(io.LimitReader(conn, 4096)).Decode(&theirs)
	}
	if err != nil {
		return link // the turn was too short, but partial results count
	}
	link.Out = theirs.Rate
	link.Sent[1] = theirs.Sent
	link.Resent[1] = theirs.Resent
	link.Into = clipped(theirs.Into, maxName)
	link.Back = clipped(theirs.Back, maxName)
	switch out := sent && theirs.Idle; {
	case out && idle:
		link.Stalled = "both"
	case out:
		link.Stalled = "out"
	case idle:
		link.Stalled = "in"
	}
	return link
}

// ping measures the least round-trip time, and the difference of the clocks by it.
func (p *party) ping(conn net.Conn, link *doctor.Link, until time.Time) error {
	left := time.Until(until)
	var answer [8]byte
	for n := range maxPings {
		began := time.Now()
		clock := p.now()
		if _, err := conn.Write([]byte{'P'}); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, answer[:]); err != nil {
			return err
		}
		took := time.Since(began)
		if link.RTT == 0 || took.Seconds() < link.RTT {
			link.RTT = took.Seconds()
			theirs := time.Unix(0, int64(binary.BigEndian.Uint64(answer[:])))
			link.Offset = theirs.Sub(clock.Add(took / 2)).Seconds()
		}
		if time.Until(until) < left*9/10 && n >= leastPings || time.Until(until) < left/2 {
			break
		}
	}
	return nil
}

// send sends data for a window, and reports success.
func (p *party) send(ctx context.Context, other int, link *doctor.Link, until time.Time) bool {
	conn, err := p.dial(ctx, other, deliver, until)
	if err != nil {
		return false
	}
	defer reset(conn)
	var whole bool
	link.Sent[0], link.Resent[0], link.MTU, whole = pour(conn, p.window, until)
	return whole
}

// get takes data for a window, and returns its rate, and whether none came in the whole time.
func (p *party) get(ctx context.Context, other int, _ *doctor.Link, until time.Time) (rate float64, idle bool) {
	conn, err := p.dial(ctx, other, fetch, until)
	if err != nil {
		return 0, false
	}
	defer reset(conn)
	return drain(conn, p.window, until)
}

// pour writes for a window and returns what TCP knows of it. whole reports whether the window ends
// before until.
func pour(conn net.Conn, window time.Duration, until time.Time) (sent, resent int64, mtu int, whole bool) {
	end := time.Now().Add(window)
	whole = end.Before(until)
	if !whole {
		end = until
	}
	_ = conn.SetWriteDeadline(end)
	data := make([]byte, chunk)
	for {
		if _, err := conn.Write(data); err != nil {
			whole = whole && errors.Is(err, os.ErrDeadlineExceeded)
			break
		}
	}
	sent, resent, mtu = segments(conn)
	return sent, resent, mtu, whole
}

// drain reads for a window and returns the rate from the first byte on, and whether none came
// although there was time for it.
func drain(conn net.Conn, window time.Duration, until time.Time) (rate float64, idle bool) {
	end := time.Now().Add(window)
	whole := end.Before(until)
	if !whole {
		end = until
	}
	_ = conn.SetReadDeadline(end)
	data := make([]byte, chunk)
	total := 0
	began := time.Time{}
	var err error
	for err == nil {
		var n int
		n, err = conn.Read(data)
		if began.IsZero() && n > 0 {
			began = time.Now() // the time starts with the first bytes, which are not counted
			continue
		}
		total += n
	}
	if began.IsZero() {
		// The sender may give up a little earlier than the reader.
		return 0, whole && time.Until(end) < window/5
	}
	return float64(total) / max(time.Since(began).Seconds(), 1e-6), false
}

// reset closes a connection whose remaining data nobody wants.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// serve answers the probes that dial, until its listener is closed, and waits for its connections
// to end.
func (p *party) serve(ctx context.Context) {
	p.group.Serve(p.listener, p.timetable.Turn, func(conn net.Conn, rank, why int) {
		defer reset(conn)
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		p.answer(ctx, conn, rank, why)
	})
}

// answer serves one connection for at most a turn.
func (p *party) answer(ctx context.Context, conn net.Conn, rank, why int) {
	until := time.Now().Add(p.timetable.Turn)
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if conn.SetDeadline(until) != nil {
		return
	}
	switch why {
	case messages:
		p.chat(ctx, conn, rank)
	case deliver:
		t := p.transfer(rank)
		if p.first(&t.taken) {
			t.Rate, t.Idle = drain(conn, p.window, until)
			close(t.came)
		}
	case fetch:
		t := p.transfer(rank)
		if p.first(&t.given) {
			t.Sent, t.Resent, _, _ = pour(conn, p.window, until)
			close(t.went)
		}
	}
}

// first sets done, and reports whether it was not set.
func (p *party) first(done *bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !*done
	*done = true
	return first
}

// transfer is that of a dialer, which passes data once each way.
func (p *party) transfer(rank int) *transfer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.states[rank] == nil {
		p.states[rank] = &transfer{came: make(chan struct{}), went: make(chan struct{})}
	}
	return p.states[rank]
}

// chat answers pings, and reports how the data was transferred.
func (p *party) chat(ctx context.Context, conn net.Conn, rank int) {
	in := bufio.NewReader(conn)
	for {
		what, err := in.ReadByte()
		if err != nil {
			return
		}
		switch what {
		case 'P':
			_, err = conn.Write(binary.BigEndian.AppendUint64(nil, uint64(p.now().UnixNano())))
		case 'R':
			t := p.transfer(rank)
			for _, passed := range []chan struct{}{t.came, t.went} {
				select {
				case <-passed:
				case <-ctx.Done():
					return
				}
			}
			said := t.delivery
			said.Into = p.interfaces.of(conn.LocalAddr())
			said.Back = p.interfaces.toward(conn.RemoteAddr())
			err = json.NewEncoder(conn).Encode(said)
		default:
			return
		}
		if err != nil {
			return
		}
	}
}

// maxError bounds the text of an error, which may quote what another host says.
const maxError = 200

// plain returns an error's text without addresses and ports, so that equal errors look equal.
func plain(err error) string {
	switch text := err.Error(); {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded),
		strings.Contains(text, "i/o timeout"):
		return "no answer in time"
	case errors.Is(err, io.EOF):
		return "the connection was closed"
	default:
		return clipped(text[strings.LastIndex(text, ": ")+1:], maxError)
	}
}
