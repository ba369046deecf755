package ssh

import (
	"net"
	"sync"
)

// wire is the byte stream under a connection. It notes how far the handshake
// got and why reading ended, which the SSH library does not tell. Closing it
// unblocks everything above, also when the stream is a channel of a jump host
// that no longer answers.
type wire struct {
	net.Conn
	via *Client // jump host that carries the stream, or nil. Owned

	mu     sync.Mutex
	closed bool
	phase  string
	line   []byte // the server's current line, up to its banner
	said   []byte // all that came before the banner, its beginning
	fault  error  // why Read failed first, unless Close made it
}

func newWire(conn net.Conn, via *Client) *wire {
	return &wire{Conn: conn, via: via, phase: PhaseBanner}
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == PhaseBanner {
		w.listen(p[:n])
	}
	if err != nil && w.fault == nil && !w.closed {
		w.fault = err
	}
	return n, err
}

// listen looks for the line that begins with SSH-. A server may send others
// before it (RFC 4253, 4.2).
func (w *wire) listen(p []byte) {
	for _, b := range p {
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
				w.phase, w.said = PhaseKex, nil
				return
			}
		}
	}
}

// enter notes that a phase has begun.
func (w *wire) enter(phase string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.phase = phase
}

// state returns the phase, what came in place of a banner, and why reading ended.
func (w *wire) state() (phase, said string, fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.phase, string(w.said), w.fault
}

// isClosed reports whether our side has closed the wire.
func (w *wire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
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
	if w.via != nil {
		// A channel's own Close only asks the other end; a dead one never answers.
		w.via.wire.Close()
	}
	return w.Conn.Close()
}
