package rails

import (
	"io"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
)

// unsentLimit is how many unsent bytes the kernel takes for a lane: few, so that segments are
// given to lanes late, but enough to keep one busy until the sender runs again.
const unsentLimit = 128 << 10

// lane is one connection.
type lane struct {
	conn   *secure.Conn
	number int // 0: the stream's first connection; else 1 + its rail
	rail   int // -1: unknown
	turn   *turn

	// What was received.
	memory     [4 << 10]byte // headers, and small segments with them
	begin, end int           // bounds of the waiting bytes in memory
	off        uint64        // stream offset of the rest of the current segment
	left       int           // bytes of that rest
	dry        bool          // the socket had no more
	broken     bool          // poll has seen an error or the end
	gone       bool          // its socket may be closed

	// What is sent.
	out      secure.Outbox
	header   [headerSize]byte
	headLeft int    // bytes of the header to send
	seg      uint64 // rest of the segment to send
	segLeft  int
	flight   spans // segments that were given to this lane and are not acknowledged
	written  uint64
	meter    meter
	trip     time.Duration
	suspect  bool // its network seems dead
}

func newLane(conn *secure.Conn, number, rail int, turn *turn) (*lane, error) {
	l := &lane{
		conn:   conn,
		number: number,
		rail:   rail,
		turn:   turn,
	}
	return l, conn.Limit(unsentLimit)
}

// pending returns how many bytes of the segment that the lane was given the kernel has not got.
func (l *lane) pending() int { return l.headLeft + l.segLeft }

// give makes a segment the next that the lane sends. It must have nothing pending.
func (l *lane) give(h header) {
	h.encode(&l.header)
	l.headLeft = headerSize
	l.seg = h.off
	l.segLeft = h.size
	if h.size > 0 {
		l.flight.add(span{h.off, h.size})
	}
}

// flush sends what is pending, until the kernel accepts no more. It reports whether anything was
// sent.
func (l *lane) flush(w *window) (sent bool, err error) {
	for l.pending() > 0 && !l.gone {
		if l.headLeft > 0 {
			l.out.Add(l.header[headerSize-l.headLeft:])
		}
		// What was acknowledged meanwhile, through another lane, may be overwritten: the receiver
		// drops it.
		first, second := w.at(l.seg, l.segLeft)
		if len(first) > 0 {
			l.out.Add(first)
		}
		if len(second) > 0 {
			l.out.Add(second)
		}
		n, err := l.conn.Send(&l.out)
		l.out.Clear()
		if err == unix.EAGAIN {
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
		sent = sent || n > 0
		l.written += uint64(n)
		head := min(n, l.headLeft)
		l.headLeft -= head
		l.seg += uint64(n - head)
		l.segLeft -= n - head
	}
	return sent, nil
}

// read receives available bytes of the segment under way into b. It returns 0 when there are none
// at the moment, and io.EOF at the end.
func (l *lane) read(b []byte) (int, error) {
	b = b[:min(len(b), l.left)]
	n := copy(b, l.memory[l.begin:l.end])
	l.begin += n
	if n == 0 {
		var err error
		if n, err = l.receive(b); err != nil {
			return 0, err
		}
	}
	l.off += uint64(n)
	l.left -= n
	return n, nil
}

func (l *lane) receive(b []byte) (int, error) {
	b = b[:min(len(b), l.turn.left)]
	l.dry = l.dry || len(b) == 0
	if l.dry || l.gone {
		return 0, nil
	}
	n, err := l.conn.Recv(b)
	switch {
	case err == unix.EAGAIN:
		l.dry = true
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	l.turn.left -= n
	l.dry = n < len(b)
	return n, nil
}

// readHeader returns the next header once it is complete. The lane must have no segment under way.
func (l *lane) readHeader() (h header, ok bool, err error) {
	for l.end-l.begin < headerSize {
		l.end = copy(l.memory[:], l.memory[l.begin:l.end])
		l.begin = 0
		n, err := l.receive(l.memory[l.end:])
		if n == 0 || err != nil {
			return header{}, false, err
		}
		l.end += n
	}
	h = decodeHeader(l.memory[l.begin:])
	l.begin += headerSize
	return h, true, nil
}

// lose takes what the lane has not delivered, to be sent on others.
func (l *lane) lose() spans {
	lost := slices.Clone(l.flight)
	l.flight = l.flight[:0]
	return lost
}
