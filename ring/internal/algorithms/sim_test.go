package algorithms_test

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// simulation carries the flows of all ranks in virtual time, on one goroutine. Each rank has one
// port, full duplex. A message reaches the receiver's port after the latency, and the port takes
// parts of messages in the order in which they come: those that send to one rank at once share its
// port. Buffers are unlimited. Bytes are combined and relayed while they are received, and each
// relayed part costs its overhead.
type simulation struct {
	network
	ranks []rank
	queue arrivals
	limit int64 // virtual time at which the simulation is given up; 0: never
	over  bool
	count int64 // of arrivals, for their order
}

// network is what a simulation's network costs.
type network struct {
	algorithms.Cost
	timed  bool  // only times count: bytes are neither kept nor combined
	slow   int   // a rank with a slow port, if factor is more than 1
	factor int64 // of the slow port's time per byte
}

// beta is the time per byte of a rank's port.
func (n network) beta(rank int) int64 {
	if n.factor > 1 && rank == n.slow {
		return n.Beta * n.factor
	}
	return n.Beta
}

// rank is the state of one rank.
type rank struct {
	resume func() (*flow.Flow, bool) // runs until the next flow
	stop   func()
	err    error

	clock    int64 // when the last flow ended
	flow     *flow.Flow
	begun    int64
	done     int64         // when what was received so far was ready
	signed   bool          // the sign has come
	part     int           // next to receive
	up, down int64         // when the port is free to send and to receive
	busy     int64         // until when bytes are received that are combined
	pipes    map[int]*pipe // by sender
	from     *pipe         // of flow

	flows, bytes int // sent
	peers        map[int]bool
}

// pipe holds what one rank has sent to another and that has not received it.
type pipe struct {
	data   []byte
	head   int     // of data
	pieces []piece // that have arrived
	next   int     // of pieces
}

// piece is bytes that came between two times.
type piece struct {
	begin, end int64
	size       int
}

// arrival is a piece that reaches a port.
type arrival struct {
	begin, end int64
	order      int64
	from, to   int32
	size       int32
}

// arrivals is a heap by time.
type arrivals []arrival

func (a arrivals) before(i, j int) bool {
	return a[i].begin < a[j].begin || a[i].begin == a[j].begin && a[i].order < a[j].order
}

func (a *arrivals) push(x arrival) {
	*a = append(*a, x)
	h := *a
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (a *arrivals) pop() arrival {
	h := *a
	top := h[0]
	h[0] = h[len(h)-1]
	h = h[:len(h)-1]
	for i := 0; ; {
		low := 2*i + 1
		if low >= len(h) {
			break
		}
		if low+1 < len(h) && h.before(low+1, low) {
			low++
		}
		if !h.before(low, i) {
			break
		}
		h[i], h[low] = h[low], h[i]
		i = low
	}
	*a = h
	return top
}

// errOver ends the ranks of a simulation that was given up.
var errOver = errors.New("the simulation is over")

// port is one rank's access to the simulation under way.
type port struct{ yield func(*flow.Flow) bool }

func (p *port) Run(f *flow.Flow) error {
	if !p.yield(f) {
		return errOver
	}
	return nil
}

// world is a team of ranks for any number of simulations, one after the other.
type world struct {
	numbers []int // of ranks, by member
	teams   []*algorithms.Team
	ports   []port
}

// newWorld makes a team of size ranks, whose numbers are multiples of stride.
func newWorld(size, stride int) *world {
	w := &world{numbers: make([]int, size), teams: make([]*algorithms.Team, size), ports: make([]port, size)}
	for me := range size {
		w.numbers[me] = me * stride
	}
	for me := range size {
		w.teams[me] = algorithms.New(&w.ports[me], w.numbers, me, kernel.Set{})
	}
	return w
}

// simulate runs body as every member of w.
func (w *world) simulate(net network, limit int64, body func(me int, team *algorithms.Team) error) (*simulation,
	error) {
	numbers := w.numbers
	s := &simulation{network: net, ranks: make([]rank, numbers[len(numbers)-1]+1), limit: limit}
	for me, number := range numbers {
		r := &s.ranks[number]
		r.pipes = map[int]*pipe{}
		r.peers = map[int]bool{}
		r.resume, r.stop = iter.Pull(func(yield func(*flow.Flow) bool) {
			w.ports[me].yield = yield
			r.err = body(me, w.teams[me])
		})
	}
	for _, number := range numbers {
		s.advance(number)
	}
	for len(s.queue) > 0 && !s.over {
		s.arrive(s.queue.pop())
	}
	for _, number := range numbers {
		r := &s.ranks[number]
		waits := r.flow
		r.stop()
		switch {
		case s.over:
		case r.err != nil && !errors.Is(r.err, errOver):
			return s, fmt.Errorf("rank %d: %w", number, r.err)
		case waits != nil:
			return s, fmt.Errorf("rank %d waits forever for rank %d", number, waits.From)
		}
		for from, p := range r.pipes {
			if p.head < len(p.data) && !s.over {
				return s, fmt.Errorf("%d bytes from rank %d to %d were never taken", len(p.data)-p.head, from, number)
			}
		}
	}
	return s, nil
}

// time returns when the last rank was done, and whether the simulation came so far.
func (s *simulation) time() (ps int64, ok bool) {
	for i := range s.ranks {
		ps = max(ps, s.ranks[i].clock)
	}
	return ps, !s.over
}

// advance carries a rank as far as what has arrived allows.
func (s *simulation) advance(number int) {
	r := &s.ranks[number]
	for !s.over {
		if r.flow == nil {
			f, ok := r.resume()
			if !ok {
				return
			}
			s.begin(number, f)
		}
		if !s.receive(number) {
			return
		}
		r.clock = max(r.done, r.begun+s.Overhead)
		r.flow = nil
		s.over = s.limit > 0 && r.clock > s.limit
	}
}

func (s *simulation) pipe(from, to int) *pipe {
	r := &s.ranks[to]
	p := r.pipes[from]
	if p == nil {
		p = &pipe{}
		r.pipes[from] = p
	}
	return p
}

// begin sends what a flow sends at once.
func (s *simulation) begin(number int, f *flow.Flow) {
	r := &s.ranks[number]
	r.begun = r.clock
	r.done = r.clock
	r.signed = f.From == flow.None
	r.flow = f
	r.part = 0
	r.flows++
	if f.From != flow.None {
		r.from = s.pipe(f.From, number)
	}
	if f.To == flow.None {
		return
	}
	r.peers[f.To] = true
	p := s.pipe(number, f.To)
	s.keep(p, f.Sign[:])
	s.transmit(number, flow.SignSize, 0, r.clock, r.clock)
	size := 0
	for _, b := range f.Send[:f.Lead] {
		s.keep(p, b)
		size += len(b)
	}
	s.transmit(number, size, size, r.clock, r.clock)
}

// keep appends bytes that are sent to what is in a pipe.
func (s *simulation) keep(p *pipe, b []byte) {
	if !s.timed {
		p.data = append(p.data, b...)
	}
}

// relay forwards the bytes that arrived between two times.
func (s *simulation) relay(number int, b []byte, first, last int64) {
	s.ranks[number].up += s.Overhead
	p := s.pipe(number, s.ranks[number].flow.To)
	s.keep(p, b)
	s.transmit(number, len(b), len(b), first, last)
}

// transmit puts size bytes that are ready between two times on the wire, where they count as so
// many.
func (s *simulation) transmit(number, size, count int, first, last int64) {
	if size == 0 {
		return
	}
	r := &s.ranks[number]
	begin := max(r.up, first)
	r.up = begin + int64(count)*s.beta(number)
	r.bytes += count
	s.count++
	s.queue.push(arrival{
		begin: begin + s.Alpha,
		end:   max(r.up, last) + s.Alpha,
		order: s.count,
		from:  int32(number),
		to:    int32(r.flow.To),
		size:  int32(size),
	})
}

// arrive takes a piece through the receiver's port.
func (s *simulation) arrive(a arrival) {
	r := &s.ranks[a.to]
	begin := max(r.down, a.begin)
	r.down = begin
	if a.begin < a.end { // not a sign
		r.down += int64(a.size) * s.beta(int(a.to))
	}
	p := s.pipe(int(a.from), int(a.to))
	p.pieces = append(p.pieces, piece{begin, max(r.down, a.end), int(a.size)})
	if r.flow != nil && r.from == p && r.flow.From == int(a.from) {
		s.advance(int(a.to))
	}
}

// take returns the next size bytes, if they are kept, and when the first and the last of them came,
// if they have.
func (p *pipe) take(size int) (b []byte, first, last int64, ok bool) {
	left := size
	for i := p.next; left > 0; i++ {
		if i == len(p.pieces) {
			return nil, 0, 0, false
		}
		left -= p.pieces[i].size
	}
	first = p.pieces[p.next].begin
	for left = size; left > 0; {
		at := &p.pieces[p.next]
		n := min(left, at.size)
		last = at.begin + (at.end-at.begin)*int64(n)/int64(at.size) // bytes of a piece come one after the other
		at.begin = last
		at.size -= n
		left -= n
		if at.size == 0 {
			p.next++
		}
	}
	if len(p.data) > 0 {
		b = p.data[p.head:][:size]
		p.head += size
	}
	if p.next == len(p.pieces) {
		p.pieces = p.pieces[:0]
		p.next = 0
	}
	return b, first, last, true
}

// clean frees the room of what was taken.
func (p *pipe) clean() {
	if p.head == len(p.data) {
		p.data = p.data[:0]
		p.head = 0
	}
}

// receive takes what has come of a rank's flow, and sends on what it relays. It reports
// whether the flow is complete.
func (s *simulation) receive(number int) bool {
	r := &s.ranks[number]
	f := r.flow
	if !r.signed {
		sign, first, _, ok := r.from.take(flow.SignSize)
		if !ok {
			return false
		}
		if !s.timed && !bytes.Equal(sign, f.Sign[:]) {
			panic(fmt.Sprintf("rank %d: sign %q from %d, want %q", number, sign, f.From, f.Sign[:]))
		}
		r.signed = true
		r.done = max(r.done, first)
	}
	for ; r.part < len(f.Recv); r.part++ {
		part := &f.Recv[r.part]
		first := r.done
		last := r.done
		if len(part.Into) > 0 {
			got, begin, end, ok := r.from.take(len(part.Into))
			if !ok {
				return false
			}
			first = max(r.begun, begin)
			last = max(r.done, end)
			if !s.timed {
				store(f, part, got)
			}
			if part.With != nil {
				first, last = s.combine(number, int64(len(part.Into)), begin, end)
			}
		}
		r.done = last
		if i := f.Lead + r.part; i < len(f.Send) {
			s.relay(number, f.Send[i], first, last)
		}
	}
	if f.From != flow.None {
		r.from.clean()
	}
	return true
}

// combine is from when to when a rank combines bytes that come between two times.
func (s *simulation) combine(number int, size, begin, end int64) (first, last int64) {
	r := &s.ranks[number]
	first = max(begin, r.begun, r.busy)
	r.busy = max(end, first+size*s.Gamma)
	return first, max(r.done, r.busy)
}

// store puts received bytes where a part wants them.
func store(f *flow.Flow, part *flow.Part, got []byte) {
	if part.With == nil {
		copy(part.Into, got)
		return
	}
	with := part.With
	srcs := [2]unsafe.Pointer{unsafe.Pointer(&with[0]), unsafe.Pointer(&got[0])}
	if part.TheirsFirst {
		srcs[0], srcs[1] = srcs[1], srcs[0]
	}
	var plain kernel.Set
	n := len(got) / f.Type.Size()
	into := unsafe.Pointer(&part.Into[0])
	plain.Reduce(f.Type, f.Op, into, srcs[:], n)
	if part.Divisor > 1 {
		plain.Divide(f.Type, into, into, n, part.Divisor)
	}
}
