package tcp

import (
	"cmp"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/ring/internal/flow"
)

const (
	maxSend = 512 << 10 // bytes that one system call sends
	maxRecv = 256 << 10 // bytes that one system call receives

	// eager is how many bytes are received with the sign, so that one call receives a
	// small flow.
	eager = 16 << 10
)

// errHalted ends a stream of a Net that has ended and holds the error to report.
var errHalted = errors.New("halted")

// stream carries one stripe of a flow: it sends and receives at the same time on one
// goroutine, and can relay bytes as they are received.
type stream struct {
	net   *Net
	index int
	start chan struct{} // starts a worker on a flow
	gate  chan bool     // reports to a worker whether the sign matches

	flow     *flow.Flow
	to, from conn // nil: none

	signSent int // bytes
	sendPart int // next to send
	sendOff  int
	out      secure.Outbox

	signed   bool      // the received sign matches
	gated    bool      // must not receive before the gate opens
	workers  []*stream // workers that start when the sign matches
	recvPart int       // next to receive; all before it are done
	recvOff  int
	inbox    inbox

	watch  watcher
	probed time.Time
}

func newStream(n *Net, index int) *stream { return &stream{net: n, index: index} }

// begin prepares s for its stripe of a flow.
func (s *stream) begin(f *flow.Flow, to, from *link) {
	s.flow = f
	s.to = nil
	s.signSent = flow.SignSize
	s.sendPart = len(f.Send)
	s.sendOff = 0
	if to != nil {
		s.to = to.conns[s.index]
		s.sendPart = 0
		if s.index == 0 {
			s.signSent = 0
		}
	}
	s.from = nil
	s.signed = true
	s.gated = false
	s.recvPart = len(f.Recv)
	s.recvOff = 0
	if from != nil {
		s.from = from.conns[s.index]
		s.recvPart = 0
		s.signed = s.index > 0
		s.gated = s.index > 0
	}
	s.inbox.reset()
	s.settle()
}

// piece returns what this stripe carries of a part.
func (s *stream) piece(b []byte) []byte {
	switch {
	case len(b) >= stripeMin && len(s.net.streams) > 1:
		return flow.Cut(b, s.index, len(s.net.streams))
	case s.index == 0:
		return b
	}
	return nil
}

// run carries the stripe, and opens the gates of workers.
func (s *stream) run(workers []*stream) error {
	if s.from != nil {
		s.workers = workers
	}
	err := s.carry()
	if err != nil && !s.signed {
		if last := s.lastSign(); last != nil {
			err = last
		}
	}
	s.open(false)
	if err != nil && err != errHalted {
		s.net.fail(err)
	}
	s.flow = nil
	if s.to != nil {
		s.to.Release()
	}
	s.out.Clear()
	s.inbox.drop()
	return err
}

// open lets the workers receive, or makes them return. Only the first call counts.
func (s *stream) open(ok bool) {
	for _, w := range s.workers {
		w.gate <- ok
	}
	s.workers = nil
}

// carry sends and receives until both are done. full means that the socket accepts no
// bytes at the moment, dry that it has none.
func (s *stream) carry() error {
	full := false
	dry := false
	for !s.net.halted.Load() {
		out := s.gather()
		in := s.receiving()
		if out == 0 && !in && !s.gated {
			return nil
		}
		full = full && out > 0
		dry = dry && in
		var err error
		if out > 0 && !full {
			var n int
			if n, full, err = s.push(); n > 0 {
				dry = false
			}
			full = full || n < out && (in || s.gated)
		}
		if err == nil && s.gated {
			if (full || out == 0) && !s.pass() {
				return errHalted
			}
			continue
		}
		if err == nil && in && !dry {
			var n int
			if n, dry, err = s.pull(out == 0); !dry {
				full = false
			}
			if out == 0 && n > 0 {
				dry = false // polls again before it waits
			}
		}
		if err == nil && (full || out == 0) && (dry || !in) {
			full, dry, err = s.wait(out > 0, in)
		}
		if err != nil {
			return err
		}
	}
	return errHalted
}

// pass waits for the gate, and reports whether it may receive.
func (s *stream) pass() bool {
	s.gated = !<-s.gate
	return !s.gated
}

// gather fills out with what can be sent now, and returns how many bytes that is, with those
// that the connection holds.
func (s *stream) gather() int {
	s.out.Clear()
	total := flow.SignSize - s.signSent
	if total > 0 {
		s.out.Add(s.flow.Sign[s.signSent:])
	}
	off := s.sendOff
	for part := s.sendPart; part < len(s.flow.Send) && !s.out.Full() && total < maxSend; part++ {
		piece := s.piece(s.flow.Send[part])
		ready := min(s.ready(part, len(piece)), off+maxSend-total)
		if off < ready {
			s.out.Add(piece[off:ready])
			total += ready - off
		}
		if ready < len(piece) {
			break
		}
		off = 0
	}
	if s.to != nil {
		total += s.to.Held()
	}
	return total
}

// ready returns how many bytes of a part can be sent. Its piece has size bytes.
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

// push sends gathered bytes. It reports how many, and whether the socket accepts none.
func (s *stream) push() (n int, full bool, err error) {
	n, err = s.to.Send(&s.out)
	if err == unix.EAGAIN {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, s.broken(s.flow.To, err)
	}
	s.advance(n)
	return n, false, nil
}

// advance records that n bytes were sent.
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

// wait sleeps until the stream can do one of what it shall, at most a tick.
func (s *stream) wait(send, recv bool) (full, dry bool, err error) {
	w := &s.watch
	both := send && recv && s.from == s.to
	first := time.Duration(0)
	second := time.Duration(0)
	w.fds = w.fds[:0]
	if send {
		w.fds, first = s.to.Watch(w.fds, true, both)
	}
	sending := len(w.fds)
	if recv && !both {
		w.fds, second = s.from.Watch(w.fds, false, true)
	}
	ready, err := w.poll(min(cmp.Or(first, tick), cmp.Or(second, tick)))
	if err == unix.EINTR {
		return send, recv, s.probe()
	} else if err != nil {
		return false, false, s.broken(s.other(send), err)
	}
	canSend := false
	canRecv := false
	if send {
		if canSend, canRecv, err = s.to.Woken(w.fds[:sending]); err != nil {
			return false, false, s.broken(s.flow.To, err)
		}
	}
	if recv && !both {
		if _, canRecv, err = s.from.Woken(w.fds[sending:]); err != nil {
			return false, false, s.broken(s.flow.From, err)
		}
	}
	if ready == 0 {
		canSend = true
		canRecv = true // poll does not show data that a conn keeps in its own memory
	}
	return send && !canSend, recv && !canRecv, s.probe()
}

// other returns the rank at the other end.
func (s *stream) other(send bool) int {
	if send {
		return s.flow.To
	}
	return s.flow.From
}

// probe checks, at most once a tick, that both networks are alive.
func (s *stream) probe() error {
	now := time.Now()
	if now.Sub(s.probed) < tick {
		return nil
	}
	s.probed = now
	if s.to != nil {
		if err := s.to.Silent(); err != nil {
			return s.broken(s.flow.To, err)
		}
	}
	if s.from != nil && s.from != s.to {
		if err := s.from.Silent(); err != nil {
			return s.broken(s.flow.From, err)
		}
	}
	return s.checkCalls()
}

// broken returns the error of a failed link, unless this rank ended it.
func (s *stream) broken(rank int, err error) error {
	if s.net.halted.Load() {
		return errHalted
	}
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		err = ErrClosed
	}
	return &PeerError{rank, err}
}
