package secure

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Guard is the protection of data after the handshake. The handshake fails between ranks
// with different guards.
type Guard uint8

const (
	Plain     Guard = iota // TCP's checksum only
	Checked                // CRC32C, which detects accidental changes
	Encrypted              // TLS 1.3, which detects all changes and hides the data
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
	// chunk is how many bytes are sealed at a time: few enough to stay in a core's cache.
	chunk = 64 << 10
	// maxPieces is how many pieces of memory one system call sends.
	maxPieces = 16
)

// guard has the calls of a socket for data that a layer seals and opens.
type guard struct {
	layer  io.ReadWriter // wire, or TLS over it
	wire   *wire
	sealed int    // plain bytes in wire.out that send has not reported as sent
	small  []byte // pieces that are sealed together
	early  []byte // bytes that peek opened and nobody has received
	flight Outbox
}

// send seals and sends the bytes in o until the kernel accepts no more. Sealed bytes that
// the kernel did not accept count as not sent: the caller passes the same bytes again.
func (g *guard) send(fd int, o *Outbox) (int, error) {
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

// seal seals one chunk of o, after its first skip bytes.
func (g *guard) seal(o *Outbox, skip int) (int, error) {
	total := 0
	g.small = g.small[:0]
	for i := 0; i < o.count && total < chunk; i++ {
		piece := o.Piece(i)
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

func (g *guard) flush(fd int) error {
	w := g.wire
	for len(w.out) > 0 {
		g.flight.Add(w.out)
		n, err := g.flight.send(fd)
		g.flight.Clear()
		if err != nil {
			return err
		}
		w.out = w.out[:copy(w.out, w.out[n:])]
	}
	return nil
}

// note sends a short text that send does not count. Bytes that the kernel does not accept
// now go ahead of the next send.
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

// recv opens received data into b, or fails with EAGAIN. 0 bytes are the end.
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
				return got, nil // the next call reports the end
			}
			return 0, err
		}
	}
	return got, nil
}

// peek copies the next bytes to b without consuming them, and returns how many.
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

// Len returns how many pieces o holds.
func (o *Outbox) Len() int { return o.count }

// Full reports whether the outbox has no room for another piece.
func (o *Outbox) Full() bool { return o.count == maxPieces }
