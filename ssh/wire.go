package ssh

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"syscall"
)

// maxPreface bounds the bytes before a server's banner.
const maxPreface = 1 << 20

var errNoBanner = errors.New("no SSH banner in the first MiB of what it sends")

// wire is the byte stream under a connection. It records the phase of the handshake and why reading
// ended, which the SSH library does not report. Close unblocks everything above it, even if the
// stream is a channel of an unresponsive jump host.
type wire struct {
	net.Conn
	via  *Client       // jump host that carries the stream, or nil; owned
	done chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	phase  string
	line   []byte // beginning of the server's current line, before the banner
	said   []byte // beginning of the text before the banner, if any
	before int    // bytes before the banner
	banner []byte // read from the banner on and not yet returned
	fault  error  // first error of Read or Write, unless Close caused it
}

func newWire(conn net.Conn, via *Client) *wire {
	return &wire{
		Conn:  conn,
		via:   via,
		done:  make(chan struct{}),
		phase: PhaseBanner,
	}
}

// Read returns the stream from the banner on. A server may send other lines first (RFC 4253, 4.2),
// which the library would bound by the length of a banner.
func (w *wire) Read(p []byte) (int, error) {
	for {
		if n := w.kept(p); n > 0 || len(p) == 0 {
			return n, nil
		}
		into := p
		if phase, _, _ := w.state(); phase == PhaseBanner {
			into = make([]byte, 4<<10) // p has room for one byte
		}
		n, err := w.Conn.Read(into)
		if n, err = w.note(into[:n], err); n > 0 || err != nil {
			return n, err
		}
	}
}

// Write records its error, as Read does. A server that has left before its banner may have said
// why, so Read reports that end.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err == nil {
		return n, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == PhaseBanner && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		return len(p), nil
	}
	if w.fault == nil && !w.closed {
		w.fault = err
	}
	return n, err
}

// kept returns bytes that came together with the banner's beginning.
func (w *wire) kept(p []byte) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := copy(p, w.banner)
	w.banner = w.banner[n:]
	return n
}

// note inspects the bytes read and returns how many of them the library gets now.
func (w *wire) note(p []byte, err error) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && w.fault == nil && !w.closed {
		w.fault = err
	}
	if w.phase != PhaseBanner {
		return len(p), err
	}
	if w.listen(p); w.phase != PhaseBanner {
		return 0, nil // an error will repeat
	}
	if w.before += len(p); w.before > maxPreface && err == nil {
		err = errNoBanner
	}
	return 0, err
}

// listen finds the line that begins with SSH-.
func (w *wire) listen(p []byte) {
	for i, b := range p {
		if len(w.said) < maxText {
			w.said = append(w.said, b)
		}
		if b == '\n' {
			w.line = w.line[:0]
			continue
		}
		if len(w.line) < len("SSH-") {
			w.line = append(w.line, b)
			if string(w.line) == "SSH-" {
				w.phase = PhaseKex
				w.said = bytes.TrimSuffix(w.said, w.line)
				w.banner = append(w.line, p[i+1:]...)
				return
			}
		}
	}
}

func (w *wire) enter(phase string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = phase
}

// state returns the phase, the text before the banner, and why reading ended.
func (w *wire) state() (phase, said string, fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.phase, string(w.said), w.fault
}

func (w *wire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// fail closes the wire because of what the server does.
func (w *wire) fail(err error) {
	w.mu.Lock()
	if w.fault == nil && !w.closed {
		w.fault = err
	}
	w.mu.Unlock()
	w.Close()
}

// Close may be called often and from anywhere.
func (w *wire) Close() error {
	w.mu.Lock()
	done := w.closed
	w.closed = true
	w.mu.Unlock()
	if done {
		return nil
	}
	close(w.done)
	if w.via != nil {
		// A channel's Close only sends a request, which may never get through.
		return w.via.wire.Close()
	}
	return w.Conn.Close()
}
