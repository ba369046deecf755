package ssh

import (
	"errors"
	"net"
	"sync"
)

// maxPreface bounds what a server may say before its banner.
const maxPreface = 1 << 20

var errNoBanner = errors.New("no SSH banner in the first MiB of what it sends")

// wire is the byte stream under a connection. It notes how far the handshake
// got and why reading ended, which the SSH library does not tell. Closing it
// unblocks everything above, also when the stream is a channel of a jump host
// that no longer answers.
type wire struct {
	net.Conn
	via  *Client       // jump host that carries the stream, or nil. Owned
	done chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	phase  string
	line   []byte // the server's current line, its beginning, up to the banner
	said   []byte // all that came before the banner, its beginning
	before int    // bytes of that
	banner []byte // what has been read from the banner on, and not been handed on yet
	fault  error  // why Read or Write failed first, unless Close made it
}

func newWire(conn net.Conn, via *Client) *wire {
	return &wire{Conn: conn, via: via, done: make(chan struct{}), phase: PhaseBanner}
}

// Read hands on what comes from the banner on. A server may send other lines before it
// (RFC 4253, 4.2), which the library bounds by the length of a banner.
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

// Write notes why it failed, as Read does.
func (w *wire) Write(p []byte) (int, error) {
	n, err := w.Conn.Write(p)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.fault == nil && !w.closed {
			w.fault = err
		}
	}
	return n, err
}

// kept moves what came together with the banner's beginning.
func (w *wire) kept(p []byte) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := copy(p, w.banner)
	w.banner = w.banner[n:]
	return n
}

// note looks at what was read and returns how much of it is for the library now.
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
		return 0, nil // an error will come again
	}
	if w.before += len(p); w.before > maxPreface && err == nil {
		err = errNoBanner
	}
	return 0, err
}

// listen looks for the line that begins with SSH-.
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
				w.phase, w.said = PhaseKex, nil
				w.banner = append(w.line, p[i+1:]...)
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
	close(w.done)
	if w.via != nil {
		// A channel's own Close only asks the other end; a dead one never answers.
		w.via.wire.Close()
	}
	return w.Conn.Close()
}
