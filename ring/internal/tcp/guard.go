package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// Guard is what is done to data on its way, after the handshake. All ranks have the
// same one: it is part of what they prove to each other.
type Guard uint8

const (
	Plain     Guard = iota // nothing: the data has TCP's checksum
	Checked                // CRC32C, which finds what hardware changes
	Encrypted              // TLS 1.3, which finds what anyone changes, and hides the data
)

func (g Guard) String() string {
	switch g {
	case Plain:
		return "plain"
	case Checked:
		return "checked"
	case Encrypted:
		return "encrypted"
	}
	return fmt.Sprintf("guarded by %d", uint8(g))
}

const (
	// chunk is how many bytes are sealed at a time. They stay in the cache of a core.
	chunk = 64 << 10
)

// line is a connection to a rank, and the guard of its data, if there is one.
type line struct {
	*net.TCPConn
	guard *guard
}

// guard has the calls of a bare socket, for data that a layer seals and opens.
type guard struct {
	layer  io.ReadWriter // wire itself, or TLS through it
	wire   *wire
	sealed int    // bytes of the engine that wire.out stands for and that it has not been told of
	small  []byte // pieces that are sealed together
	early  []byte // opened by peek, and not received yet
	flight outbox
}

// detach ends the handshake: from now on the engine moves what is sealed.
func (l *line) detach() {
	if l.guard != nil {
		l.guard.wire.detached = true
	}
}

// send seals and sends what is in o, as far as the kernel takes it. What was sealed and
// not taken counts as not sent: the engine comes with the same bytes again.
func (g *guard) send(fd int, o *outbox) (int, error) {
	sent := 0
	for {
		if err := g.flush(fd); err != nil {
			if sent > 0 && err == unix.EAGAIN {
				err = nil
			}
			return sent, err
		}
		sent += g.sealed
		g.sealed = 0
		n, err := g.seal(o, sent)
		if n == 0 || err != nil {
			return sent, err
		}
		g.sealed = n
	}
}

// seal seals a chunk of what is in o after its first skip bytes.
func (g *guard) seal(o *outbox, skip int) (int, error) {
	total := 0
	g.small = g.small[:0]
	for i := 0; i < o.count && total < chunk; i++ {
		piece := o.piece(i)
		if skip >= len(piece) {
			skip -= len(piece)
			continue
		}
		piece = piece[skip:min(len(piece), skip+chunk-total)]
		skip = 0
		total += len(piece)
		if len(piece) < chunk/4 {
			g.small = append(g.small, piece...)
			continue
		}
		if err := g.put(piece); err != nil {
			return 0, err
		}
	}
	return total, g.put(nil)
}

// put seals the small pieces, and then b.
func (g *guard) put(b []byte) error {
	for _, plain := range [...][]byte{g.small, b} {
		if len(plain) > 0 {
			if _, err := g.layer.Write(plain); err != nil {
				return err
			}
		}
	}
	g.small = g.small[:0]
	return nil
}

// flush sends what is sealed.
func (g *guard) flush(fd int) error {
	w := g.wire
	for len(w.out) > 0 {
		g.flight.add(w.out)
		n, err := g.flight.send(fd)
		g.flight.clear()
		if err != nil {
			return err
		}
		w.out = w.out[:copy(w.out, w.out[n:])]
	}
	return nil
}

// note sends a few bytes of which the engine keeps no account: what the kernel does not
// take now goes ahead of what is sent next.
func (g *guard) note(fd int, text []byte) (int, error) {
	if err := g.flush(fd); err != nil {
		return 0, err
	}
	if err := g.put(text); err != nil {
		return 0, err
	}
	if err := g.flush(fd); err != nil && err != unix.EAGAIN {
		return 0, err
	}
	return len(text), nil
}

// recv opens what has come, to fill b, or fails with EAGAIN. 0 bytes are the end.
func (g *guard) recv(fd int, b []byte) (int, error) {
	got := copy(b, g.early)
	g.early = g.early[:copy(g.early, g.early[got:])]
	for got < len(b) {
		n, err := g.layer.Read(b[got:])
		got += n
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, fmt.Errorf("%w: %w", ErrChanged, err)
		}
		if n, err = g.wire.fill(fd); n == 0 || err != nil {
			if got > 0 && (err == nil || err == unix.EAGAIN) {
				return got, nil // the end comes again
			}
			return 0, err
		}
	}
	return got, nil
}

// peek shows in b what comes next, and leaves it there. It returns how much there is.
func (g *guard) peek(fd int, b []byte) (int, error) {
	if missing := len(b) - len(g.early); missing > 0 {
		more := make([]byte, missing)
		kept := g.early
		g.early = nil
		n, err := g.recv(fd, more)
		g.early = append(kept, more[:n]...)
		if err != nil && err != unix.EAGAIN {
			return 0, err
		}
	}
	return copy(b, g.early), nil
}
