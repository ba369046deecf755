package tcp

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/ring/internal/flow"
)

const (
	maxPieces = 16        // of memory that one system call sends
	maxSend   = 512 << 10 // bytes that one system call sends
	maxRecv   = 256 << 10 // bytes that one system call receives

	// eager is how many bytes are received together with the sign, so that a small
	// flow is received in one call.
	eager = 16 << 10
)

// errHalted ends a stream when the Net has ended: there is a better reason then.
var errHalted = errors.New("halted")

// stream carries one stripe of a flow: it sends and receives at the same time, on
// one goroutine. Bytes that are received and done with can be sent on at once.
type stream struct {
	net   *Net
	index int
	start chan struct{} // to a worker: a flow has begun
	gate  chan bool     // to a worker: whether the sign is right

	flow     *flow.Flow
	to, from *socket // nil is none

	signSent int // bytes
	sendPart int // what is to be sent next
	sendOff  int
	out      outbox

	signed   bool      // the sign that came is right
	gated    bool      // nothing may be received until the gate opens
	workers  []*stream // whose gates open with the sign
	recvPart int       // what is to be done next; all before it is
	recvOff  int
	inbox    inbox

	trySend, tryRecv func(fd uintptr) bool // for the runtime, made once
	moved            int                   // bytes, by one of them
	failed           error

	watch  watcher
	looked time.Time
}

func newStream(n *Net, index int) *stream {
	s := &stream{net: n, index: index}
	s.trySend = func(uintptr) bool {
		s.moved, s.failed = s.to.send(&s.out)
		return s.failed != unix.EAGAIN
	}
	s.tryRecv = func(uintptr) bool {
		s.moved, s.failed = s.from.recv(s.inbox.space)
		return s.failed != unix.EAGAIN
	}
	return s
}

// begin sets up s for its stripe of a flow.
func (s *stream) begin(f *flow.Flow, to, from *link) {
	s.flow = f
	s.to, s.signSent, s.sendPart, s.sendOff = nil, flow.SignSize, len(f.Send), 0
	if to != nil {
		s.to, s.sendPart = &to.sockets[s.index], 0
		if s.index == 0 {
			s.signSent = 0
		}
	}
	s.from, s.signed, s.gated, s.recvPart, s.recvOff = nil, true, false, len(f.Recv), 0
	if from != nil {
		s.from, s.recvPart = &from.sockets[s.index], 0
		s.signed, s.gated = s.index > 0, s.index > 0
	}
	s.inbox.reset()
	s.settle()
}

// piece is what this stripe carries of a part.
func (s *stream) piece(b []byte) []byte {
	switch {
	case len(b) >= stripeMin && len(s.net.streams) > 1:
		return flow.Cut(b, s.index, len(s.net.streams))
	case s.index == 0:
		return b
	}
	return nil
}

// run carries the stripe. Workers are those whose gates depend on it.
func (s *stream) run(workers []*stream) error {
	if s.from != nil {
		s.workers = workers
	}
	err := s.carry()
	if err != nil && !s.signed {
		if last := s.lastWords(); last != nil {
			err = last
		}
	}
	s.open(false)
	if err != nil && err != errHalted {
		s.net.fail(err)
	}
	s.flow = nil
	s.out.clear()
	s.inbox.drop()
	return err
}

// open lets the workers receive, or go home. Only the first call counts.
func (s *stream) open(ok bool) {
	for _, w := range s.workers {
		w.gate <- ok
	}
	s.workers = nil
}

// carry sends and receives until both are done. Full means that the socket takes
// nothing more at the moment, dry that nothing has come.
func (s *stream) carry() error {
	full, dry := false, false
	for !s.net.halted.Load() {
		out, in := s.gather(), s.receiving()
		if out == 0 && !in && !s.gated {
			return nil
		}
		var err error
		if out > 0 && !full {
			var n int
			if n, err = s.push(!in && !s.gated); n > 0 {
				dry = false
			}
			full = n < out
		}
		if err == nil && s.gated {
			if (full || out == 0) && !s.pass() {
				return errHalted
			}
			continue
		}
		if err == nil && in && !dry {
			if dry, err = s.pull(out == 0); !dry {
				full = false
			}
		}
		switch {
		case err != nil:
			return err
		case out == 0 || !in:
			full, dry = false, false // the next call waits for what there is
		case full && dry:
			if full, dry, err = s.wait(); err != nil {
				return err
			}
		}
	}
	return errHalted
}

// pass waits for the gate, and reports whether it opened.
func (s *stream) pass() bool {
	s.gated = !<-s.gate
	return !s.gated
}

// gather lays out what can be sent now, and returns how many bytes that is.
func (s *stream) gather() int {
	s.out.clear()
	total := flow.SignSize - s.signSent
	if total > 0 {
		s.out.add(s.flow.Sign[s.signSent:])
	}
	off := s.sendOff
	for part := s.sendPart; part < len(s.flow.Send) && s.out.count < maxPieces && total < maxSend; part++ {
		piece := s.piece(s.flow.Send[part])
		ready := min(s.ready(part, len(piece)), off+maxSend-total)
		if off < ready {
			s.out.add(piece[off:ready])
			total += ready - off
		}
		if ready < len(piece) {
			break
		}
		off = 0
	}
	return total
}

// ready is how many bytes of a part to be sent are there. Its piece has size bytes.
func (s *stream) ready(part, size int) int {
	source := part - s.flow.Lead
	switch {
	case source < s.recvPart:
		return size
	case source == s.recvPart:
		return s.recvOff
	}
	return 0
}

// push sends what was gathered, as far as the socket takes it. With wait it waits
// until it takes anything, a tick at most.
func (s *stream) push(wait bool) (int, error) {
	var n int
	var err error
	if !wait {
		n, err = s.to.send(&s.out)
	} else if werr := s.to.raw.Write(s.trySend); werr != nil {
		return 0, s.timeout(s.flow.To, werr, s.to.conn.SetWriteDeadline)
	} else {
		n, err = s.moved, s.failed
	}
	if err == unix.EAGAIN {
		return 0, nil
	}
	if err != nil {
		return 0, s.broken(s.flow.To, err)
	}
	s.advance(n)
	return n, nil
}

// advance moves on by n bytes that were sent.
func (s *stream) advance(n int) {
	sign := min(n, flow.SignSize-s.signSent)
	s.signSent += sign
	s.sendOff += n - sign
	for s.sendPart < len(s.flow.Send) {
		size := len(s.piece(s.flow.Send[s.sendPart]))
		if s.sendOff < size || s.ready(s.sendPart, size) < size {
			break
		}
		s.sendOff -= size
		s.sendPart++
	}
}

// wait sleeps until something can be sent or received, for a tick at most.
func (s *stream) wait() (full, dry bool, err error) {
	const over = unix.POLLERR | unix.POLLHUP | hangup
	fds := s.watch.fds[:1]
	fds[0] = unix.PollFd{Fd: int32(s.to.fd), Events: unix.POLLOUT | hangup}
	same := s.from == s.to
	if same {
		fds[0].Events |= unix.POLLIN
	} else {
		fds = s.watch.fds[:2]
		fds[1] = unix.PollFd{Fd: int32(s.from.fd), Events: unix.POLLIN}
	}
	if err := s.watch.poll(fds); err == unix.EINTR {
		return true, true, s.look()
	} else if err != nil {
		return false, false, s.broken(s.flow.To, err)
	}
	sender := fds[0].Revents
	full = sender&(unix.POLLOUT|over) == 0
	if same {
		return full, sender&(unix.POLLIN|over) == 0, s.look()
	}
	// Who has hung up does not wait for more.
	if sender&hangup != 0 {
		return full, false, s.broken(s.flow.To, ErrClosed)
	}
	return full, fds[1].Revents == 0, s.look()
}

// timeout handles the error of a wait by the runtime. Most often a tick is over.
func (s *stream) timeout(rank int, err error, deadline func(time.Time) error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return s.broken(rank, err)
	}
	if err := deadline(time.Now().Add(tick)); err != nil {
		return s.broken(rank, err)
	}
	return s.look()
}

// look asks, at most once a tick, whether the networks to both ends live.
func (s *stream) look() error {
	now := time.Now()
	if now.Sub(s.looked) < tick {
		return nil
	}
	s.looked = now
	if s.to != nil {
		if err := silent(s.to.fd); err != nil {
			return s.broken(s.flow.To, err)
		}
	}
	if s.from != nil && s.from != s.to {
		if err := silent(s.from.fd); err != nil {
			return s.broken(s.flow.From, err)
		}
	}
	return s.doubt()
}

// broken says that the link to a rank failed, unless it was this end that ended it.
func (s *stream) broken(rank int, err error) error {
	if s.net.halted.Load() {
		return errHalted
	}
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		err = ErrClosed
	}
	return &PeerError{rank, err}
}
