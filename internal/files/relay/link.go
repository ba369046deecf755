package relay

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	maxMembers    = 1 << 20
	copySize      = frames.Max
	handshakeTime = 5 * time.Second
	dialTime      = 3 * time.Second  // bound on a connection and its handshake
	beatTime      = time.Second      // interval of heartbeats from a host that waits for bytes itself
	silence       = 15 * time.Second // time without a heartbeat after which a link counts as broken
	// A peer that only gives signs of life would hold this host up without end: fewer bytes than
	// leastBytes in starveTime are none.
	starveTime = time.Minute
	leastBytes = 256 << 10
)

// errStarved reports a peer that sends signs of life and next to no bytes.
var errStarved = errors.New("sent less than 256 KiB in a minute")

// The fetching host sends an offset (8 bytes). A link then carries the file from there on, in
// frames of kind frames.Out. Frames without bytes are signs of life.

// pass sends the file to a host that fetches it, as far as it is there, until it is whole or ctx
// ends, if that host may fetch it.
func pass(ctx context.Context, conn net.Conn, b *blob, may func() bool) error {
	if err := conn.SetDeadline(time.Now().Add(silence)); err != nil {
		return err
	}
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	at := int64(binary.BigEndian.Uint64(head[:]))
	if at < 0 || at > b.size {
		return fmt.Errorf("asked for the file from byte %d", at)
	}
	if !may() {
		return errors.New("fetched the file too often")
	}
	to := frames.NewWriter(conn)
	data := make([]byte, copySize)
	for at < b.size {
		valid, grown := b.after()
		n := 0
		if at < valid {
			var err error
			if n, err = b.ReadAt(data, at); n == 0 {
				return err
			}
		} else {
			beat := time.NewTimer(beatTime)
			select {
			case <-grown:
				beat.Stop()
				continue
			case <-beat.C:
			case <-ctx.Done():
				beat.Stop()
				return ctx.Err()
			}
		}
		if err := conn.SetDeadline(time.Now().Add(silence)); err != nil {
			return err
		}
		if err := to.Send(frames.Out, data[:n]); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// fetch takes the rest of the file from a host, of which some bytes must come in each time of
// starve. An error of the file itself is a *localError.
func fetch(conn net.Conn, b *blob, starve time.Duration) error {
	b.rewind()
	least := b.written + leastBytes
	hungry := time.Now()
	if err := conn.SetDeadline(time.Now().Add(silence)); err != nil {
		return err
	}
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, uint64(b.written))); err != nil {
		return err
	}
	in := frames.NewReader(bufio.NewReaderSize(conn, copySize))
	for b.written < b.size {
		if err := conn.SetDeadline(time.Now().Add(silence)); err != nil {
			return err
		}
		head, data, err := in.Next()
		if errors.Is(err, frames.ErrTooLarge) || err == nil && head[0] != frames.Out {
			return errOther
		}
		if err != nil {
			return err
		}
		if err := b.take(data, true); errors.Is(err, errOther) {
			return err
		} else if err != nil {
			return &localError{err}
		}
		if b.written >= least {
			least = b.written + leastBytes
			hungry = time.Now()
		} else if time.Since(hungry) > starve && b.written < b.size {
			return errStarved
		}
	}
	return nil
}

// localError is about this host, not about a link.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }

// reach connects to the first of some peers, in the order of preference, that can be reached.
func reach(ctx context.Context, auth *secure.Authenticator, peers []wire.Peer) (net.Conn, wire.Peer, error) {
	type try struct {
		peer wire.Peer
		at   netip.AddrPort
	}
	var tries []try
	for _, p := range peers {
		for _, at := range p.Addrs {
			tries = append(tries, try{p, at})
		}
	}
	conn, i, errs := secure.Race(ctx, len(tries), func(ctx context.Context, i int, _ func()) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTime)
		defer cancel()
		return auth.Reach(ctx, net.Dialer{}, tries[i].at, tries[i].peer.Member, 0)
	})
	if i < 0 {
		return nil, wire.Peer{}, errors.Join(append(errs, errors.New("no peer can be reached"))...)
	}
	return conn, tries[i].peer, nil
}
