package tcp

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/ring/internal/flow"
)

// scratchSize is how many bytes are received before they are combined: few enough to stay
// in a core's cache.
const scratchSize = 256 << 10

// inbox buffers bytes that cannot be received in place: the sign and what follows it, and
// operands of a reduction.
type inbox struct {
	memory []byte // aligned for every type
	begin  int    // start of the waiting bytes
	end    int
	space  []byte            // room for the next bytes
	direct bool              // space is in the flow's memory
	pair   [2]unsafe.Pointer // operands of a reduction; a field to avoid allocations
}

func (b *inbox) reset() {
	if b.memory == nil {
		b.memory = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(make([]float64, scratchSize/8)))), scratchSize)
	}
	b.begin = 0
	b.end = 0
}

func (b *inbox) drop() {
	b.pair = [2]unsafe.Pointer{}
	b.space = nil
}

// receiving reports whether more bytes are due.
func (s *stream) receiving() bool { return !s.signed || s.recvPart < len(s.flow.Recv) }

// settle advances past parts that are done.
func (s *stream) settle() {
	for s.recvPart < len(s.flow.Recv) && s.recvOff == len(s.piece(s.flow.Recv[s.recvPart].Into)) {
		s.recvPart++
		s.recvOff = 0
	}
}

// pull receives once and stores the bytes. It reports how many came, and whether the socket has no
// more. With spin it polls for a moment.
func (s *stream) pull(spin bool) (n int, dry bool, err error) {
	s.inbox.space = s.room()
	n, err = s.poll(spin)
	switch {
	case err == unix.EAGAIN:
		return 0, true, nil
	case err != nil:
		return 0, false, s.broken(s.flow.From, err)
	case n == 0:
		return 0, false, s.broken(s.flow.From, ErrClosed)
	}
	dry = n < len(s.inbox.space)
	if s.inbox.direct {
		s.recvOff += n
	} else {
		s.inbox.end += n
		if err := s.unpack(); err != nil {
			return n, false, err
		}
	}
	s.settle()
	return n, dry, nil
}

// poll receives available bytes. With spin it polls for a moment until there are some, and
// yields in between: a sleep and a wakeup take longer than a small flow.
func (s *stream) poll(spin bool) (int, error) {
	if !spin || s.net.cfg.Spin == 0 {
		return s.from.Recv(s.inbox.space)
	}
	begun := time.Now()
	for {
		n, err := s.from.Recv(s.inbox.space)
		if err != unix.EAGAIN || time.Since(begun) > s.net.cfg.Spin {
			return n, err
		}
		yield()
	}
}

// room returns space for the next bytes: never empty, and never for bytes of another
// flow.
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
	box.end = copy(box.memory, box.memory[box.begin:box.end]) // at most part of an element
	box.begin = 0
	return box.memory[box.end:min(len(rest), len(box.memory))]
}

// ahead returns how many bytes may be received with the sign.
func (s *stream) ahead() int {
	sum := 0
	for i := 0; i < len(s.flow.Recv) && sum < eager; i++ {
		sum += len(s.piece(s.flow.Recv[i].Into))
	}
	return min(sum, eager)
}

// unpack checks the sign once it is complete, and then stores or combines the waiting
// bytes, as whole elements.
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

// check compares the received sign, and lets all stripes receive if it matches.
func (s *stream) check() error {
	if s.inbox.memory[mark] == note {
		return s.readNote()
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
	theirs := s.inbox.memory[:flow.SignSize]
	want := s.flow.Sign
	if s.flow.Expect != nil {
		want = s.flow.Expect
	}
	if string(theirs) != string(want[:]) {
		return &SignError{Rank: s.flow.From, Theirs: flow.Sign(theirs)}
	}
	return nil
}

// combine sets the start of into to with op came, in whole elements.
func (s *stream) combine(p *flow.Part, into, with, came []byte) {
	f := s.flow
	kernels := s.net.cfg.Kernels
	pair := &s.inbox.pair
	pair[0] = unsafe.Pointer(&with[0])
	pair[1] = unsafe.Pointer(&came[0])
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

// lastSign receives the rank's sign if it has arrived, and returns an error if it differs:
// a rank that sees a wrong sign sends its own before it fails the job.
func (s *stream) lastSign() error {
	box := &s.inbox
	for box.end < flow.SignSize {
		n, err := s.from.Recv(box.memory[box.end:flow.SignSize])
		if err != nil || n == 0 {
			return nil
		}
		box.end += n
	}
	if box.memory[mark] == note {
		return s.readNote()
	}
	return s.compare()
}
