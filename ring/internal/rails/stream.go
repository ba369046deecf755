package rails

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
)

const (
	maxHeld   = 512 << 10             // accepted bytes that no lane has yet
	ackEvery  = 256 << 10             // bytes
	stallTime = 20 * time.Millisecond // after this long without progress, what lies ahead is taken out of the way
	leaveTime = time.Second           // after this long without a lane that works, a rank that ended one has left
)

// Config configures a [Stream].
type Config struct {
	Rails int // between the two ranks, 2 to Most
	// First is the rail of the first connection, or -1 if it is on none.
	First int
	// Dial tries once to make a connection over a rail, as lane 1 + rail. Nil: the other rank
	// dials.
	Dial func(ctx context.Context, rail int) (*secure.Conn, error)
}

// Stream carries bytes between two ranks in order and each once, over any number of lanes. Its
// methods mean what those of a connection of package tcp do: one goroutine uses a Stream at a
// time, and only Add and Wake may be called concurrently.
type Stream struct {
	cfg      Config
	junk     []byte
	life     context.Context // lifetime of the goroutines
	end      context.CancelFunc
	running  sync.WaitGroup
	wakePipe [2]int // a byte in this pipe ends poll(2)

	watched   []*lane    // lanes of the last Watch
	prospects []prospect // scratch memory of best
	dialing   [Most]bool // rails being dialed

	mu        sync.Mutex // guard of all below, and of the lanes
	lanes     []*lane
	dead      []*lane   // lanes whose sockets close once nothing polls them
	waiting   bool      // a poll may watch the lanes
	signalled bool      // the pipe has a byte
	woken     bool      // all waits have ended for good
	failed    error     // permanent error that no lane can mend
	ended     error     // error of the last lane
	hungUp    time.Time // since when no lane has worked, after the other rank ended one; zero: one works

	out sending
	in  receiving
}

// sending is the half of a stream that sends.
type sending struct {
	window window
	lost   spans // pieces to send again
	// since when nothing could be sent though something was left to send, or the window is full;
	// zero: it goes on
	blocked time.Time
	sinking bool // receive what acknowledgements may lie behind
}

// receiving is the half of a stream that receives.
type receiving struct {
	next       uint64 // all before was received
	acked      uint64 // the last acknowledgement
	pendingAck bool   // the last acknowledgement may be lost
	early      []byte // peeked, not received yet
	reorder    reorderBuffer
	stalled    time.Time // since when nothing was received; zero: something was
	draining   bool      // receive data that follows a gap
	turn       turn
}

// turn bounds what one call receives. The other rank may send more than that without end which
// brings the stream no further, such as acknowledgements, and Wake must wait for the call.
type turn struct {
	left int // bytes, over all lanes
}

const (
	maxTurn = 4 << 20
	// A lane that ends has no other call. The other rank had a window under way at most, and some
	// of it again.
	maxLastTurn = 2 * maxWindow
)

// New returns a stream that begins with one lane. Close closes it.
func New(first *secure.Conn, cfg Config) (*Stream, error) {
	s := &Stream{cfg: cfg, junk: make([]byte, maxSegment)}
	if err := s.makeWakePipe(); err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	l, err := newLane(first, 0, cfg.First, &s.in.turn)
	if err != nil {
		s.closeWakePipe()
		return nil, err
	}
	s.lanes = []*lane{l}
	s.life, s.end = context.WithCancel(context.Background())
	s.running.Go(s.keep)
	return s, nil
}

// Add makes conn a lane and reports whether it does; it owns conn then. It replaces an earlier lane
// of that number, also one that works again meanwhile: the other rank does so too.
func (s *Stream) Add(number int, conn *secure.Conn) bool {
	if number < 1 || number > s.cfg.Rails {
		return false
	}
	rail := number - 1
	l, err := newLane(conn, number, rail, &s.in.turn)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.woken || s.failed != nil || !s.open() {
		return false
	}
	for _, old := range s.lanes {
		if old.number == number || old.suspect && old.rail == rail {
			s.closeLane(old)
		}
	}
	s.lanes = append(s.lanes, l)
	s.signal()
	return true
}

// closeLane ends a lane. What it has not delivered goes to others.
func (s *Stream) closeLane(l *lane) {
	kept := s.lanes[:0:0]
	for _, other := range s.lanes {
		if other != l {
			kept = append(kept, other)
		}
	}
	s.lanes = kept
	s.lose(l)
	l.gone = true
	_ = unix.Shutdown(l.conn.FD, unix.SHUT_RDWR)
	s.dead = append(s.dead, l)
	s.closeDead()
}

// closeDead closes sockets that no poll watches: a number must not be used again meanwhile.
func (s *Stream) closeDead() {
	if s.waiting {
		return
	}
	for _, l := range s.dead {
		l.conn.Close()
	}
	s.dead = nil
}

// lose queues what a lane has not delivered, to be sent on others.
func (s *Stream) lose(l *lane) {
	s.in.pendingAck = true // an acknowledgement may have been lost with it
	for _, part := range l.lose() {
		if part.end() > s.out.window.acked {
			s.out.lost.add(part)
		}
	}
	s.out.lost.drop(s.out.window.acked)
}

// fault handles an error of a lane. The lane ends, unless the error shows that data was changed,
// which ends the stream.
func (s *Stream) fault(l *lane, err error) {
	if errors.Is(err, secure.ErrChanged) {
		s.failed = err
		return
	}
	s.closeLane(l)
	if s.ended == nil || err != io.EOF {
		s.ended = err
	}
	hungUp := err == io.EOF || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
	if hungUp && s.hungUp.IsZero() && !s.healthy() {
		s.hungUp = time.Now()
	}
}

// open reports whether there is a lane, or may be one soon: the other rank ends a lane that it
// replaces, also the last one, and this rank may learn that before it has the new lane.
func (s *Stream) open() bool {
	return len(s.lanes) > 0 || !s.hungUp.IsZero() && slices.Contains(s.dialing[:], true)
}

// conclude ends the stream when the other rank has left: it has ended a lane, and for leaveTime
// none has worked. Its end cannot pass lanes whose network is dead.
func (s *Stream) conclude(now time.Time) {
	switch {
	case s.hungUp.IsZero():
	case s.healthy():
		s.hungUp = time.Time{}
	case now.Sub(s.hungUp) > leaveTime:
		s.hungUp = time.Time{}
		s.ended = io.EOF
		s.in.turn.left = maxLastTurn
		for _, rest := range s.lanes {
			rest.dry = false
			s.drain(rest)
		}
		for len(s.lanes) > 0 {
			s.closeLane(s.lanes[0])
		}
		s.signal()
	}
}

func (s *Stream) healthy() bool {
	for _, l := range s.lanes {
		if !l.suspect {
			return true
		}
	}
	return false
}

// enter begins a call of the user.
func (s *Stream) enter() {
	s.mu.Lock()
	s.waiting = false
	s.closeDead()
	s.in.turn.left = maxTurn
	for _, l := range s.lanes {
		l.dry = false
	}
	s.checkBroken()
}

// checkBroken receives all from lanes that poll has seen broken: to keep them would end each poll
// at once.
func (s *Stream) checkBroken() {
	for _, l := range s.lanes {
		if l.broken {
			l.broken = false
			s.drain(l)
			l.dry = false
		}
	}
}

// Send accepts bytes of o and sends what it can. It copies them, so that they can be sent again
// when a lane fails. What was accepted before the other rank has left is its loss, as with one
// connection: a rank leaves when it has received all.
func (s *Stream) Send(o *secure.Outbox) (int, error) {
	s.enter()
	defer s.mu.Unlock()
	if err := s.over(); err != nil && (o.Len() > 0 || s.failed != nil) {
		return 0, err
	}
	if s.out.window.room() < len(s.out.window.memory)/2 || !s.out.blocked.IsZero() {
		s.readHeaders()
	}
	accepted := 0
	part := 0
	off := 0
	progress := false
	for {
		n := 0
		for part < o.Len() {
			piece := o.Piece(part)[off:]
			fit := min(len(piece), s.space())
			if fit == 0 && len(piece) > 0 {
				break
			}
			s.out.window.add(piece[:fit])
			n += fit
			if off += fit; fit == len(piece) {
				part++
				off = 0
			}
		}
		accepted += n
		moved := s.pump()
		if n == 0 && !moved {
			break
		}
		progress = true
	}
	if err := s.over(); err != nil && accepted == 0 && (o.Len() > 0 || s.failed != nil) {
		return 0, err
	}
	s.watchWindow(progress)
	if !progress {
		return 0, unix.EAGAIN
	}
	return accepted, nil
}

// space returns how many bytes can be accepted now. It makes the window larger if only that
// limits the lanes.
func (s *Stream) space() int {
	held := int(s.out.window.end - s.out.window.cut)
	if s.out.window.room() == 0 && held == 0 && len(s.out.lost) == 0 {
		s.out.window.grow()
	}
	return max(0, min(s.out.window.room(), maxHeld-held))
}

// watchWindow receives data that nobody asks for, once sending has been stuck for a while:
// acknowledgements may lie behind it, and the other rank may be stuck in the same way.
func (s *Stream) watchWindow(progress bool) {
	switch {
	case progress || s.out.window.room() > 0 && s.held() == 0:
		s.out.blocked = time.Time{}
		s.out.sinking = false
	case s.out.blocked.IsZero():
		s.out.blocked = time.Now()
	case time.Since(s.out.blocked) > stallTime:
		s.out.sinking = true
		s.drainAll()
	}
}

// over returns the error of a stream that can send no more.
func (s *Stream) over() error {
	switch {
	case s.failed != nil:
		return s.failed
	case s.open():
		return nil
	case s.ended == nil || s.ended == io.EOF:
		return unix.EPIPE
	}
	return s.ended
}

// pump gives segments to lanes and sends, until the lane on which the next segment would arrive
// first has one already. It reports whether anything was sent or given.
func (s *Stream) pump() (moved bool) {
	for _, l := range s.lanes {
		if l.pending() > 0 {
			moved = s.flush(l) || moved
		}
	}
	s.out.lost.drop(s.out.window.acked)
	var now time.Time
	for len(s.out.lost) > 0 || s.out.window.cut < s.out.window.end {
		part := span{s.out.window.cut, int(s.out.window.end - s.out.window.cut)}
		again := len(s.out.lost) > 0
		if again {
			part = s.out.lost[0]
		}
		part.size = min(part.size, maxSegment)
		if now.IsZero() {
			now = time.Now()
		}
		l := s.best(now, part.size)
		if l == nil {
			break
		}
		if again {
			s.out.lost.drop(part.end())
		} else {
			s.out.window.cut = part.end()
		}
		l.give(header{off: part.off, ack: s.in.next, size: part.size})
		s.in.acked = s.in.next
		moved = true
		s.flush(l)
	}
	return moved
}

// best returns the lane that gets the next segment, of size bytes, or nil.
func (s *Stream) best(now time.Time, size int) *lane {
	s.prospects = s.prospects[:0]
	for _, l := range s.lanes {
		pending := l.pending()
		s.prospects = append(s.prospects, prospect{
			usable:  !l.suspect,
			queued:  l.conn.Queued() + pending,
			rate:    l.meter.rate,
			trip:    l.trip,
			meter:   &l.meter,
			written: l.written,
			pending: pending,
		})
	}
	if i := assign(now, s.prospects, size); i >= 0 {
		return s.lanes[i]
	}
	return nil
}

// flush sends what a lane has, and reports whether it sent anything.
func (s *Stream) flush(l *lane) bool {
	sent, err := l.flush(&s.out.window)
	if err == nil {
		return sent
	}
	// A rank that has left may have sent its last data before.
	s.in.turn.left = maxLastTurn
	l.dry = false
	if s.drain(l); !l.gone {
		s.fault(l, err)
	}
	return sent
}

// Held returns how many accepted bytes no lane's kernel has.
func (s *Stream) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held()
}

func (s *Stream) held() int {
	if !s.open() {
		return 0
	}
	sum := int(s.out.window.end-s.out.window.cut) + s.out.lost.total()
	alive := s.healthy()
	for _, l := range s.lanes {
		if !alive || !l.suspect {
			sum += l.pending()
		}
	}
	return sum
}

// Release does nothing: Send has copied the bytes.
func (s *Stream) Release() {}

// Note sends a short text: all of it, or none.
func (s *Stream) Note(text []byte) (int, error) {
	s.enter()
	defer s.mu.Unlock()
	if err := s.over(); err != nil {
		return 0, err
	}
	if s.space() < len(text) {
		return 0, unix.EAGAIN
	}
	s.out.window.add(text)
	s.pump()
	return len(text), nil
}

// Recv receives available bytes into b.
func (s *Stream) Recv(b []byte) (int, error) {
	s.enter()
	defer s.mu.Unlock()
	return s.recv(b)
}

func (s *Stream) recv(b []byte) (int, error) {
	n := copy(b, s.in.early)
	s.in.early = s.in.early[:copy(s.in.early, s.in.early[n:])]
	n += s.fill(b[n:])
	if n == 0 && len(b) > 0 && s.lagging() {
		s.drainAll()
		n = s.fill(b)
	}
	if n > 0 {
		s.in.stalled = time.Time{}
		s.in.draining = false
		s.acknowledge(ackEvery)
		return n, nil
	}
	switch {
	case s.failed != nil:
		return 0, s.failed
	case s.open():
		return 0, unix.EAGAIN
	case s.ended == nil || s.ended == io.EOF:
		return 0, nil
	}
	return 0, s.ended
}

// lagging reports whether nothing has been received for so long that what lies ahead must be
// taken out of the way.
func (s *Stream) lagging() bool {
	switch {
	case len(s.lanes) == 0:
		return false
	case s.in.stalled.IsZero():
		s.in.stalled = time.Now()
	case !s.in.draining:
		s.in.draining = time.Since(s.in.stalled) > stallTime
	}
	return s.in.draining
}

// fill receives the next bytes of the stream into b, from the reorder buffer or from the lanes.
func (s *Stream) fill(b []byte) int {
	n := 0
	for n < len(b) && s.failed == nil {
		if !s.in.reorder.empty() {
			if got := s.in.reorder.take(s.in.next, b[n:]); got > 0 {
				n += got
				s.in.next += uint64(got)
				continue
			}
		}
		l := s.current()
		if l == nil {
			if !s.readHeaders() {
				break
			}
			continue
		}
		if s.skip(l) {
			continue
		}
		got, err := l.read(b[n:])
		if err != nil {
			s.fault(l, err)
			continue
		}
		n += got
		s.in.next += uint64(got)
	}
	return n
}

// current returns a lane that may have the next bytes of the stream, or ones that were received
// before.
func (s *Stream) current() *lane {
	for _, l := range s.lanes {
		if l.left > 0 && l.off <= s.in.next && (!l.dry || l.begin < l.end) {
			return l
		}
	}
	return nil
}

// skip drops bytes of a lane that were received before. It reports whether it did something.
func (s *Stream) skip(l *lane) bool {
	if l.left == 0 || l.off >= s.in.next {
		return false
	}
	if _, err := l.read(s.junk[:min(uint64(len(s.junk)), s.in.next-l.off)]); err != nil {
		s.fault(l, err)
	}
	return true
}

// readHeaders reads the headers of lanes without a segment under way, and what they acknowledge.
// It reports whether a lane has the next bytes now.
func (s *Stream) readHeaders() bool {
	found := false
	for _, l := range s.lanes {
		if s.advance(l) && l.off <= s.in.next {
			found = true
		}
	}
	return found
}

// advance reads headers of a lane until one has a segment. It reports whether there is one now.
func (s *Stream) advance(l *lane) bool {
	for l.left == 0 {
		h, ok, err := l.readHeader()
		if err != nil {
			s.fault(l, err)
			return false
		}
		if !ok {
			return false
		}
		if err := h.check(s.in.next, s.out.window.end); err != nil {
			s.failed = fmt.Errorf("%w: %w", errBroken, err)
			return false
		}
		s.handleAck(h.ack)
		l.off = h.off
		l.left = h.size
		if h.size > 0 {
			return true
		}
	}
	return false
}

// errBroken reports headers that no rank sends.
var errBroken = errors.New("the other rank broke the protocol of lanes")

// handleAck frees what the other end has received.
func (s *Stream) handleAck(ack uint64) {
	if ack <= s.out.window.acked {
		return
	}
	s.out.window.acked = ack
	for _, l := range s.lanes {
		l.flight.drop(ack)
	}
}

// acknowledge tells the other end what was received, if that is at least so many bytes. A lane
// that has no room now does it later.
func (s *Stream) acknowledge(least uint64) {
	if s.in.next-s.in.acked < least && !s.in.pendingAck {
		return
	}
	for _, l := range s.lanes {
		if !l.suspect && l.pending() == 0 {
			l.give(header{ack: s.in.next})
			s.in.acked = s.in.next
			s.in.pendingAck = false
			s.flush(l)
			return
		}
	}
}

// drainAll receives what lies ahead of the next bytes, so that what is behind it can come.
func (s *Stream) drainAll() {
	for _, l := range s.lanes {
		s.drain(l)
	}
}

// drain keeps everything that a lane has now.
func (s *Stream) drain(l *lane) {
	for s.failed == nil && !l.gone {
		if l.left == 0 && !s.advance(l) {
			return
		}
		if s.skip(l) {
			if l.dry && l.begin == l.end {
				return
			}
			continue
		}
		off := l.off
		n, err := l.read(s.junk)
		if err != nil {
			s.fault(l, err)
			return
		}
		if n == 0 {
			return
		}
		s.in.reorder.insert(off, s.junk[:n])
	}
}

// Peek copies the next bytes without consuming them.
func (s *Stream) Peek(b []byte) (int, error) {
	s.enter()
	defer s.mu.Unlock()
	if missing := len(b) - len(s.in.early); missing > 0 {
		more := make([]byte, missing)
		n := s.fill(more)
		s.in.early = append(s.in.early, more[:n]...)
	}
	if len(s.in.early) == 0 && s.failed != nil {
		return 0, s.failed
	}
	return copy(b, s.in.early), nil
}

// Discard drops what was received. Nothing can be received after it.
func (s *Stream) Discard([]byte) {
	s.enter()
	defer s.mu.Unlock()
	s.in.early = nil
	for s.failed == nil && s.fill(s.junk) > 0 {
	}
	s.acknowledge(1)
	s.pump()
}

// Silent returns an error when the networks of all lanes are dead.
func (s *Stream) Silent() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last error
	for _, l := range s.lanes {
		if last = l.conn.Silent(); last == nil {
			return nil
		}
	}
	return last
}

// Trip returns the shortest round trip over any lane so far, or 0 if it is not known.
func (s *Stream) Trip() (shortest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lanes {
		if _, trip := l.conn.Look(); trip > 0 && (shortest == 0 || trip < shortest) {
			shortest = trip
		}
	}
	return shortest
}

// Unsent returns how many bytes may be lost if the stream is closed now.
func (s *Stream) Unsent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.held()
	for _, l := range s.lanes {
		if !l.suspect {
			sum += l.conn.Queued()
		}
	}
	return sum
}

// Close ends the stream and its goroutines.
func (s *Stream) Close() error {
	s.Wake()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, l := range s.lanes {
		errs = append(errs, l.conn.Close())
	}
	s.lanes = nil
	s.waiting = false
	s.closeDead()
	s.closeWakePipe()
	return errors.Join(errs...)
}
