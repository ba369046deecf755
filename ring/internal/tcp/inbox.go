package tcp

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/ring/internal/flow"
)

// scratchSize is what is received before it is combined. It stays in the cache of a
// core.
const scratchSize = 256 << 10

// inbox is where bytes wait that cannot be received right into their place: the sign
// and what follows it, and what is to be combined.
type inbox struct {
	memory []byte // aligned for every type
	begin  int    // of what waits
	end    int
	space  []byte            // for the next bytes
	direct bool              // it is not here
	pair   [2]unsafe.Pointer // of a combination, so that it need not be allocated
}

func (b *inbox) reset() {
	if b.memory == nil {
		b.memory = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]float64, scratchSize/8)))), scratchSize)
	}
	b.begin, b.end = 0, 0
}

// drop lets go of the flow's memory.
func (b *inbox) drop() { b.pair, b.space = [2]unsafe.Pointer{}, nil }

// receiving reports whether more is to come.
func (s *stream) receiving() bool { return !s.signed || s.recvPart < len(s.flow.Recv) }

// settle moves on from parts that are done.
func (s *stream) settle() {
	for s.recvPart < len(s.flow.Recv) && s.recvOff == len(s.piece(s.flow.Recv[s.recvPart].Into)) {
		s.recvPart++
		s.recvOff = 0
	}
}

// pull receives once, and puts what has come where it belongs. It reports whether
// nothing more is there. With wait it waits for the first byte, a tick at most.
func (s *stream) pull(wait bool) (dry bool, err error) {
	s.inbox.space = s.room()
	n, err := s.hover(wait)
	if wait && err == unix.EAGAIN {
		if werr := s.from.raw.Read(s.tryRecv); werr != nil {
			return true, s.timeout(s.flow.From, werr, s.from.conn.SetReadDeadline)
		}
		n, err = s.moved, s.failed
	}
	switch {
	case err == unix.EAGAIN:
		return true, nil
	case err != nil:
		return false, s.broken(s.flow.From, err)
	case n == 0:
		return false, s.broken(s.flow.From, ErrClosed)
	}
	if s.inbox.direct {
		s.recvOff += n
	} else {
		s.inbox.end += n
		if err := s.unpack(); err != nil {
			return false, err
		}
	}
	s.settle()
	return n < len(s.inbox.space), nil
}

// hover receives what is there. With wait it looks for a moment until something is, and
// lets others run in between: to fall asleep and be woken takes longer than a small
// flow does.
func (s *stream) hover(wait bool) (int, error) {
	if !wait {
		return s.from.recv(s.inbox.space)
	}
	if s.net.cfg.Spin == 0 {
		return 0, unix.EAGAIN
	}
	begun := time.Now()
	for {
		n, err := s.from.recv(s.inbox.space)
		if err != unix.EAGAIN || time.Since(begun) > s.net.cfg.Spin {
			return n, err
		}
		yield()
	}
}

// room is where the next bytes go. There is some, and none of it is for bytes of
// another flow.
func (s *stream) room() []byte {
	box := &s.inbox
	box.direct = false
	if !s.signed {
		return box.memory[box.end : flow.SignSize+s.ahead()]
	}
	p := &s.flow.Recv[s.recvPart]
	rest := s.piece(p.Into)[s.recvOff:]
	if p.With == nil {
		box.direct = true
		return rest[:min(len(rest), maxRecv)]
	}
	box.end = copy(box.memory, box.memory[box.begin:box.end]) // part of an element, if anything
	box.begin = 0
	return box.memory[box.end:min(len(rest), len(box.memory))]
}

// ahead is how many bytes may be received with the sign.
func (s *stream) ahead() int {
	sum := 0
	for i := 0; i < len(s.flow.Recv) && sum < eager; i++ {
		sum += len(s.piece(s.flow.Recv[i].Into))
	}
	return min(sum, eager)
}

// unpack checks the sign, once it is there, and then takes the bytes that wait, as
// far as they are whole elements.
func (s *stream) unpack() error {
	box := &s.inbox
	for !s.signed {
		if box.end < flow.SignSize {
			return nil
		}
		if err := s.check(); err != nil {
			return err
		}
	}
	size := s.flow.Type.Size()
	for box.begin < box.end && s.recvPart < len(s.flow.Recv) {
		p := &s.flow.Recv[s.recvPart]
		into := s.piece(p.Into)[s.recvOff:]
		came := box.memory[box.begin:min(box.end, box.begin+len(into))]
		if p.With == nil {
			copy(into, came)
		} else {
			came = came[:len(came)/size*size]
			if len(came) == 0 {
				return nil
			}
			s.combine(p, into, s.piece(p.With)[s.recvOff:], came)
		}
		box.begin += len(came)
		s.recvOff += len(came)
		s.settle()
	}
	return nil
}

// check compares the sign that came, and lets all stripes receive if it is right.
func (s *stream) check() error {
	if s.inbox.memory[mark] == note {
		return s.read()
	}
	if err := s.compare(); err != nil {
		return err
	}
	s.inbox.begin = flow.SignSize
	s.signed = true
	s.open(true)
	return nil
}

func (s *stream) compare() error {
	theirs, want := s.inbox.memory[:flow.SignSize], s.flow.Sign
	if s.flow.Expect != nil {
		want = s.flow.Expect
	}
	if string(theirs) != string(want[:]) {
		return &SignError{Rank: s.flow.From, Theirs: flow.Sign(theirs)}
	}
	return nil
}

// combine sets the start of into to with op what came, which is whole elements.
func (s *stream) combine(p *flow.Part, into, with, came []byte) {
	f, kernels := s.flow, s.net.cfg.Kernels
	pair := &s.inbox.pair
	pair[0], pair[1] = unsafe.Pointer(&with[0]), unsafe.Pointer(&came[0])
	if p.TheirsFirst {
		pair[0], pair[1] = pair[1], pair[0]
	}
	n := len(came) / f.Type.Size()
	dst := unsafe.Pointer(&into[0])
	kernels.Reduce(f.Type, f.Op, dst, pair[:], n)
	if p.Divisor > 1 {
		kernels.Divide(f.Type, dst, dst, n, p.Divisor)
	}
}

// lastWords looks whether the sign of a rank has come after all, and is another: one
// that saw so has said its own before it made the job fail.
func (s *stream) lastWords() error {
	box := &s.inbox
	for box.end < flow.SignSize {
		n, err := s.from.recv(box.memory[box.end:flow.SignSize])
		if err != nil || n == 0 {
			return nil
		}
		box.end += n
	}
	if box.memory[mark] == note {
		return s.read()
	}
	return s.compare()
}
