package relay

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/files/space"
	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	progressTime = time.Second // interval of a host's reports
	maxFailures  = 3           // failures of a peer after which it is not asked again
)

// Target is the destination of a file on a host.
type Target interface {
	// File receives the bytes. It may hold some of an earlier launch.
	File() *os.File
	// Finish is called once with the whole file, and returns the path of it, or of what was made of
	// it.
	Finish() (path string, err error)
	// Forget makes Close remove the bytes, with which a later launch would go on.
	Forget()
	// Close releases the target, finished or not.
	Close() error
}

// Ready is a Target that already has what would be made of the file.
type Ready interface {
	Target
	Path() string
}

// Receive takes part in a relay on a host until the launcher says that it is over. offer is the
// launcher's first message, next returns the frames after it. target opens where the file goes; of
// an offer that only asks, it may return nil. The caller reports an error to the launcher.
func Receive(ctx context.Context, offer []byte, next func() (wire.Frame, error), out *wire.Writer,
	target func(wire.Offer) (Target, error)) error {
	return receive(ctx, offer, next, out, target, starveTime)
}

// receive is Receive with the time in which a peer must send some bytes.
func receive(ctx context.Context, offer []byte, next func() (wire.Frame, error), out *wire.Writer,
	target func(wire.Offer) (Target, error), starve time.Duration) error {
	var o wire.Offer
	if err := json.Unmarshal(offer, &o); err != nil {
		return &wire.FormatError{Reason: err.Error()}
	}
	if o.Ask {
		return answer(o, out, target)
	}
	if err := checkOffer(o); err != nil {
		return err
	}
	to, err := target(o)
	if err != nil {
		return err
	}
	m := &member{
		offer:   o,
		target:  to,
		out:     out,
		starve:  starve,
		certs:   map[int]secure.Fingerprint{},
		fetches: map[int]int{},
	}
	err = noRoom(m.target, m.offer, m.run(ctx, next))
	return errors.Join(err, to.Close())
}

// noRoom returns err. If it is that the target's file system is full, it first frees what has come,
// which would stay in the way of others, and says how much room there is.
func noRoom(target Target, o wire.Offer, err error) error {
	if !space.Short(err) {
		return err
	}
	file := target.File()
	target.Forget()
	return space.Explain(errors.Join(err, file.Truncate(0)), filepath.Dir(file.Name()), o.Size)
}

// answer says whether the host has what would be made of a file.
func answer(o wire.Offer, out *wire.Writer, target func(wire.Offer) (Target, error)) error {
	var has wire.Offered
	to, err := target(o)
	if err != nil {
		return err
	}
	if to != nil {
		if ready, is := to.(Ready); is {
			has.Path = []byte(ready.Path())
		}
		if err := to.Close(); err != nil {
			return err
		}
	}
	return out.SendMessage(wire.TypeOffered, has)
}

// member is a host in a relay.
type member struct {
	offer  wire.Offer
	target Target
	blob   *blob
	auth   *secure.Authenticator
	out    *wire.Writer
	fed    atomic.Bool // whether the launcher was asked for the file
	starve time.Duration
	saying sync.Mutex // held while a report is sent

	mu      sync.Mutex
	certs   map[int]secure.Fingerprint // fingerprints of peers' certificates
	fetches map[int]int                // how often each peer has fetched the file
	from    int
}

// identify gives the member new credentials, with which it can meet those that it learns of.
func (m *member) identify() (own *secure.Credentials, err error) {
	if own, err = secure.NewCredentials(secure.NewSeed()); err != nil {
		return nil, err
	}
	m.auth, err = secure.NewAuthenticator(secure.Identity{
		Job:  m.offer.Group,
		Rank: m.offer.Member,
		Size: maxMembers,
		Key:  m.offer.Key,
	}, 1, own, m.cert)
	return own, err
}

func (m *member) run(ctx context.Context, next func() (wire.Frame, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	if ready, is := m.target.(Ready); is {
		return m.skip(next, ready.Path())
	}
	var err error
	if m.blob, err = newBlob(m.target.File(), m.offer); err != nil {
		return err
	}
	offered := wire.Offered{Have: m.blob.have()}
	own, err := m.identify()
	if err != nil {
		return err
	}
	mark := own.Fingerprint()
	offered.Cert = mark[:]
	if len(m.offer.Addrs) > 0 {
		listeners, where, err := secure.ListenAll(ctx, m.offer.Addrs)
		if err == nil {
			offered.Addrs = where
		} // else others go on without this host
		for _, l := range listeners {
			defer l.Close()
			work.Go(func() {
				m.auth.Serve(l, handshakeTime, func(conn net.Conn, peer, _ int) {
					defer context.AfterFunc(ctx, func() { conn.Close() })()
					// The other end notices a failure, too.
					_ = pass(ctx, conn, m.blob, func() bool { return m.mayFetch(peer) })
				})
			})
		}
	}
	if err := m.out.SendMessage(wire.TypeOffered, offered); err != nil {
		return err
	}
	work.Go(func() { m.report(ctx) })
	return m.follow(ctx, &work, next)
}

// skip answers the launcher for a host that needs nothing, and has nothing to pass on.
func (m *member) skip(next func() (wire.Frame, error), path string) error {
	if err := m.out.SendMessage(wire.TypeOffered, wire.Offered{Have: m.offer.Size}); err != nil {
		return err
	}
	for {
		f, err := next()
		if err != nil {
			return err
		}
		switch f.Type {
		case wire.TypePeers:
		case wire.TypeEnough:
			return m.out.SendMessage(wire.TypePassed, wire.Passed{Have: m.offer.Size, Done: true, Path: []byte(path)})
		default:
			return unexpected(f)
		}
	}
}

func unexpected(f wire.Frame) error {
	return &wire.FormatError{Reason: fmt.Sprintf("%s came while a file was passed on", f.Type)}
}

// follow obeys the launcher until the relay is over.
func (m *member) follow(ctx context.Context, work *sync.WaitGroup, next func() (wire.Frame, error)) error {
	began := false
	for {
		f, err := next()
		if err != nil {
			return err
		}
		switch f.Type {
		case wire.TypePeers:
			var p wire.Peers
			if err := f.Decode(&p); err != nil {
				return err
			}
			m.learn(p.Peers)
			if p.Whole && !began {
				began = true
				parents := dialled(p.Peers, m.offer.Addrs)
				work.Go(func() { m.fetch(ctx, parents) })
			}
		case wire.TypePiece:
			if !m.fed.Load() {
				return unexpected(f)
			}
			if _, err := m.blob.Write(f.Payload); errors.Is(err, errOther) {
				return errors.New("the file was changed while it was sent")
			} else if err != nil {
				return err
			}
			if m.blob.have() == m.blob.size {
				m.say(wire.Passed{From: -1})
			}
		case wire.TypeEnough:
			if m.blob.have() < m.blob.size {
				return errors.New("gorun ended the relay before this host had the file")
			}
			path, err := m.target.Finish()
			if err != nil {
				return err
			}
			return m.out.SendMessage(wire.TypePassed, wire.Passed{Have: m.blob.size, Done: true, Path: []byte(path)})
		default:
			return unexpected(f)
		}
	}
}

// dialled returns the peers that may be fetched from, with the addresses that a host with its own
// addresses may connect to.
func dialled(peers []wire.Peer, own []netip.Addr) (all []wire.Peer) {
	for _, p := range peers {
		if p.Addrs = secure.Dialable(p.Addrs, own); len(p.Addrs) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// say sends a report of what is there by now, one after the other: the launcher fails a host that
// has less than it said before. A failure shows when the next frame is read.
func (m *member) say(p wire.Passed) {
	m.saying.Lock()
	defer m.saying.Unlock()
	p.Have = m.blob.have()
	_ = m.out.SendMessage(wire.TypePassed, p)
}

// learn remembers the certificates of peers.
func (m *member) learn(peers []wire.Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range peers {
		if len(p.Cert) == sha256.Size {
			m.certs[p.Member] = secure.Fingerprint(p.Cert)
		}
	}
}

func (m *member) cert(rank int) (secure.Fingerprint, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, known := m.certs[rank]
	return c, known
}

// mayFetch counts a fetch of a peer, and reports whether it is one of those that it may need: it
// asks no host again that has failed so often.
func (m *member) mayFetch(peer int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fetches[peer]++
	return m.fetches[peer] <= maxFailures
}

// report sends the launcher this host's progress, while there is any.
func (m *member) report(ctx context.Context) {
	ticker := time.NewTicker(progressTime)
	defer ticker.Stop()
	for reported := m.blob.have(); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if now := m.blob.have(); now > reported && now < m.blob.size {
			reported = now
			m.mu.Lock()
			from := m.from
			m.mu.Unlock()
			m.say(wire.Passed{From: from})
		}
	}
}

// fetch gets the file from one peer after the other, and from the launcher if none succeeds.
func (m *member) fetch(ctx context.Context, peers []wire.Peer) {
	failures := map[int]int{}
	for m.blob.have() < m.blob.size {
		// Those that have failed least, the nearest of them first.
		left := slices.DeleteFunc(slices.Clone(peers), func(p wire.Peer) bool {
			return failures[p.Member] >= maxFailures
		})
		slices.SortStableFunc(left, func(a, b wire.Peer) int {
			return cmp.Compare(failures[a.Member], failures[b.Member])
		})
		conn, peer, err := reach(ctx, m.auth, left)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			m.setFrom(-1)
			m.blob.rewind()
			m.fed.Store(true)
			m.say(wire.Passed{Feed: true, From: -1})
			return
		}
		m.setFrom(peer.Member)
		m.say(wire.Passed{From: peer.Member})
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		err = fetch(conn, m.blob, m.starve)
		stop()
		conn.Close()
		if ctx.Err() != nil {
			return
		}
		var local *localError
		switch {
		case err == nil:
		case errors.As(err, &local):
			why := noRoom(m.target, m.offer, err).Error()
			_ = m.out.SendMessage(wire.TypeRefuse, wire.Refuse{Code: wire.CodeHostFailed, What: why})
			return
		default:
			failures[peer.Member]++
			lied := errors.Is(err, errOther)
			if lied || errors.Is(err, errStarved) {
				failures[peer.Member] = maxFailures
			}
			m.say(wire.Passed{From: peer.Member, Blamed: &wire.Blamed{Member: peer.Member, Why: why(err), Lied: lied}})
		}
	}
	m.mu.Lock()
	from := m.from
	m.mu.Unlock()
	m.say(wire.Passed{From: from})
}

func (m *member) setFrom(member int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.from = member
}

// why is an error without addresses and ports.
func why(err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "it was silent"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it closed the connection"
	case errors.Is(err, errOther), errors.Is(err, errStarved):
		return err.Error()
	}
	return "the connection broke"
}
