package negotiate

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gorun/gorun/ring/internal/collective"
)

// Defaults of a Config.
const (
	DefaultCache      = 1024
	DefaultFusion     = 64 << 20
	DefaultStallAfter = 25 * time.Second
)

const maxCache = 1 << 20

// maxOpen bounds the memory of the open rounds that one rank has begun, on each rank: those of
// hundreds of thousands of tensors.
const maxOpen = 256 << 20

// Config configures a Negotiator. Size, Cache, Fusion and Large must be the same on all
// ranks.
type Config struct {
	Rank, Size int
	Cache      int           // names that have an id; 0: none
	Fusion     int64         // bytes in a fusion buffer; 0: never fuse
	Large      int64         // bytes from which a tensor is not fused; 0: no limit
	StallAfter time.Duration // after which a tensor counts as stalled; 0: never

	// Arrived, if not nil, is called in a step for each request of each rank, with
	// whether it is the first one of its name.
	Arrived func(name string, kind collective.Kind, rank int, first bool)
}

func (c Config) check() error {
	switch {
	case c.Rank < 0 || c.Rank >= c.Size:
		return fmt.Errorf("negotiate: rank %d is not one of %d ranks", c.Rank, c.Size)
	case c.Cache < 0 || c.Cache > maxCache:
		return fmt.Errorf("negotiate: a cache of %d names, want 0 to %d", c.Cache, maxCache)
	case c.Fusion < 0 || c.Large < 0:
		return fmt.Errorf("negotiate: a fusion threshold of %d bytes and a limit of %d, want 0 or more", c.Fusion,
			c.Large)
	}
	return nil
}

var errLeft = errors.New("negotiate: ranks have left, and no step can follow")

// Negotiator is one rank's copy of the state that all ranks share. It is not safe for
// concurrent use.
type Negotiator struct {
	config  Config
	names   map[string]*entry // those that have an id or an open round
	cache   cache
	waiting []*entry // entries with an open round, the oldest first
	opened  []int    // memory of open rounds, by the rank that began them
	maxOpen int      // bound on each of opened
	digest  uint32   // digest of all steps so far
	leaving bool     // this rank's next frame says that it leaves
	left    []int    // the ranks that have left
	joining bool     // this rank's last frame of requests says that it joins
	joined  []bool   // joined ranks
	joins   int      // how many have
	last    int      // the last of them
	err     error    // error of the first failed step

	// Reused memory.
	out      records
	rests    []int
	list     []byte
	complete []*entry
	ready    []Item
	failures []Failure
	fuser    fuser
}

// New returns the negotiator of one rank.
func New(c Config) (*Negotiator, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	n := &Negotiator{
		config:  c,
		names:   make(map[string]*entry),
		cache:   cache{limit: c.Cache},
		opened:  make([]int, c.Size),
		maxOpen: maxOpen,
		rests:   make([]int, c.Size),
		joined:  make([]bool, c.Size),
	}
	n.fuser.large = c.Large
	n.digest = 2166136261 // FNV-1a
	for _, v := range []uint32{uint32(c.Size), uint32(c.Cache), uint32(c.Fusion), uint32(c.Fusion >> 32),
		uint32(c.Large), uint32(c.Large >> 32)} {
		n.mix(v)
	}
	return n, nil
}

func (n *Negotiator) mix(v uint32) { n.digest = (n.digest ^ v) * 16777619 }

// Failure is a tensor that all ranks that have not joined have submitted, and that cannot
// run.
type Failure struct {
	Name string
	Kind collective.Kind // kind of the first request
	Err  error           // a *MismatchError or *JoinedError
}

// Outcome is the result of a step, the same on all ranks: batches to run, in this order,
// and tensors that failed. It is valid until the next step.
type Outcome struct {
	Batches  []Batch
	Failures []Failure
	// Left are the ranks that leave. If there are any, the negotiation is over: there are
	// no batches and no further steps.
	Left []int
	// Joined reports that all ranks have joined, Last being the last one. After this step
	// no rank is joined.
	Joined bool
	Last   int
}

// Leave makes this rank's next frame say that it leaves. The step that gets the frame ends
// the negotiation on all ranks, whether tensors wait or not.
func (n *Negotiator) Leave() { n.leaving = true }

// Open reports whether some rank has submitted the tensor of that name, and another has not.
func (n *Negotiator) Open(name string) bool {
	e := n.names[name]
	return e != nil && e.open
}

// Encode packs a rank's new requests, from [Outbox.List], for the next step. It fills the
// frame, and returns the rest, which is valid until the next call, and the number of
// requests packed: fewer than all only if they are megabytes. No step may come between
// Encode and the step that gets the frame.
func (n *Negotiator) Encode(frame *Frame, list []Request) (rest []byte, sent int) {
	n.out.reset()
	for i := range list {
		if len(n.out.b)+maxRecord > room+MaxRest {
			break
		}
		r := &list[i]
		if e := n.names[r.Name]; e != nil && e.id >= 0 && e.agreedBy(n.config.Rank) == *r {
			n.out.id(e.id)
		} else {
			n.out.full(r)
		}
		sent++
	}
	n.out.flush()
	rest = frame.seal(n.digest, n.out.b)
	if n.leaving {
		frame[1] |= leaveFlag
	}
	if n.joining && sent == len(list) {
		frame[1] |= joinFlag
		n.joining = false
	}
	return rest, sent
}

// Rests returns the bytes that each rank has beyond its frame. Frames are those of all
// ranks, concatenated. The result is valid until the next call.
func (n *Negotiator) Rests(frames []byte) (byRank []int, err error) {
	if len(frames) != n.config.Size*FrameSize {
		return nil, fmt.Errorf("negotiate: %d bytes are not the frames of %d ranks", len(frames), n.config.Size)
	}
	for rank := range n.rests {
		if _, n.rests[rank], err = openFrame(frames[rank*FrameSize:][:FrameSize], n.digest); err != nil {
			return nil, fmt.Errorf("negotiate: rank %d %w", rank, err)
		}
	}
	return n.rests, nil
}

// Step takes the frames of all ranks, concatenated, and their rests, by rank; rests may be
// nil if no rank has any. It fails if a rank breaks the protocol, or after a step in which
// ranks left. All ranks get the error, and all later steps fail as well.
func (n *Negotiator) Step(now time.Time, frames []byte, rests [][]byte) (Outcome, error) {
	if n.err == nil {
		n.err = n.gather(now, frames, rests)
	}
	if n.err != nil {
		return Outcome{}, n.err
	}
	if len(n.left) > 0 {
		n.err = errLeft
		return Outcome{Left: n.left}, nil
	}
	clear(n.failures)
	n.ready = n.ready[:0]
	n.failures = n.failures[:0]
	for _, e := range n.complete {
		n.finish(e)
	}
	if len(n.complete) > 0 {
		n.waiting = slices.DeleteFunc(n.waiting, func(e *entry) bool { return !e.open })
	}
	clear(n.complete)
	n.complete = n.complete[:0]

	out := Outcome{Batches: n.fuser.fuse(n.ready, n.config.Fusion), Failures: n.failures}
	out.Last, out.Joined = n.part()
	n.mix(uint32(len(out.Failures)))
	for _, b := range out.Batches {
		n.mix(uint32(len(b.Items)))
		n.mix(uint32(b.Bytes))
	}
	return out, nil
}

// gather records the requests of all ranks. It changes no id.
func (n *Negotiator) gather(now time.Time, frames []byte, rests [][]byte) error {
	if _, err := n.Rests(frames); err != nil {
		return err
	}
	for rank := range n.config.Size {
		if leaves(frames[rank*FrameSize:]) {
			n.left = append(n.left, rank)
		}
		list, more, err := openFrame(frames[rank*FrameSize:][:FrameSize], n.digest)
		if err == nil && more > 0 {
			list, err = n.whole(list, rests, rank, more)
		}
		if err == nil {
			err = n.read(now, rank, list)
		}
		if err == nil && joins(frames[rank*FrameSize:]) {
			err = n.join(rank)
		}
		if err != nil {
			return fmt.Errorf("negotiate: rank %d: %w", rank, err)
		}
	}
	return nil
}

// whole joins the two parts of a rank's list.
func (n *Negotiator) whole(list []byte, rests [][]byte, rank, more int) ([]byte, error) {
	if rank >= len(rests) || len(rests[rank]) != more {
		return nil, fmt.Errorf("%d more bytes of requests are announced, and others came", more)
	}
	n.list = append(append(n.list[:0], list...), rests[rank]...)
	return n.list, nil
}

// read records the requests of one rank.
func (n *Negotiator) read(now time.Time, rank int, list []byte) error {
	in := reader{b: list}
	var rec record
	for in.more() {
		if !in.next(&rec) {
			return errors.New("the list of requests is garbled")
		}
		if rec.n == 0 {
			if err := n.readFull(now, rank, &rec); err != nil {
				return err
			}
			continue
		}
		for id := rec.from; id < rec.from+rec.n; id++ {
			e := n.cache.get(id)
			if e == nil {
				return fmt.Errorf("request with id %d, which no tensor has", id)
			}
			if err := n.note(now, rank, e, e.agreedBy(rank)); err != nil {
				return err
			}
		}
	}
	return nil
}

// readFull records a request that was sent in full.
func (n *Negotiator) readFull(now time.Time, rank int, rec *record) error {
	r := rec.request
	e := n.names[string(rec.name)]
	if e != nil {
		r.Name = e.name
	} else {
		r.Name = string(rec.name)
	}
	if e != nil && e.want.Shape == string(rec.shape) {
		r.Shape = e.want.Shape
	} else {
		r.Shape = string(rec.shape)
	}
	if err := r.check(n.config.Size); err != nil {
		return fmt.Errorf("tensor %.80q: %w", r.Name, err)
	}
	if e == nil {
		e = &entry{name: r.Name, id: -1}
		e.made = make([]uint64, (n.config.Size+63)/64)
		n.names[r.Name] = e
	}
	return n.note(now, rank, e, r)
}

// note adds a rank's request to the open round of its name, or opens one.
func (n *Negotiator) note(now time.Time, rank int, e *entry, r Request) error {
	if n.joined[rank] {
		return fmt.Errorf("tensor %.80q is submitted by a rank that has joined", e.name)
	}
	if !e.open {
		e.begin(now, rank, n.config.Size-n.joins, r)
		n.waiting = append(n.waiting, e)
		if n.opened[rank] += e.memory(); n.opened[rank] > n.maxOpen {
			return fmt.Errorf("it submits tensors of %d MiB of names and more that other ranks do not submit, such as "+
				"%.80q", n.maxOpen>>20, e.name)
		}
	}
	if e.has(rank) {
		return &DuplicateError{Name: e.name, Rank: rank}
	}
	e.mark(rank)
	if n.config.Arrived != nil {
		n.config.Arrived(e.name, r.Kind, rank, rank == e.first)
	}
	if e.odd < 0 && !r.agrees(e.want) {
		e.odd = rank
		e.oddSaid = r
	}
	if varies(r.Kind) && varies(e.want.Kind) { // else the round fails, and nobody has paid for counts
		if e.counts == nil {
			e.counts = make([]uint64, n.config.Size)
		}
		e.counts[rank] = r.Count
	}
	if e.missing == 0 {
		n.complete = append(n.complete, e)
	}
	return nil
}

// begin opens the round whose first request is r.
func (e *entry) begin(now time.Time, rank, missing int, r Request) {
	clear(e.made)
	e.round = round{
		open:    true,
		missing: missing,
		made:    e.made,
		want:    r,
		first:   rank,
		odd:     -1,
		since:   now,
	}
}

// memory returns about how many bytes e takes while its round is open.
func (e *entry) memory() int {
	bytes := 512 + len(e.name) + len(e.want.Shape) + 8*len(e.made)
	if varies(e.want.Kind) {
		bytes += 8 * 64 * len(e.made) // counts
	}
	return bytes
}

// finish closes a round in which no rank is missing: the tensor is ready, or failed.
func (n *Negotiator) finish(e *entry) {
	e.open = false
	n.opened[e.first] -= e.memory()
	joined, first := n.without(e)
	if err := e.fault(joined, first); err != nil {
		n.failures = append(n.failures, Failure{Name: e.name, Kind: e.want.Kind, Err: err})
		n.mix(1)
		n.forget(e)
		return
	}
	item := Item{Request: e.want, Joined: joined}
	e.agreed = e.want
	if varies(e.want.Kind) {
		item.Counts = e.counts
		item.Count = 0
		for _, c := range e.counts {
			item.Count += c
		}
	}
	n.ready = append(n.ready, item)
	if evicted := n.cache.use(e); evicted != nil {
		n.forget(evicted)
	}
	n.forget(e)
	n.mix(uint32(e.id) + 2)
}

// forget drops a name that has neither an id nor an open round.
func (n *Negotiator) forget(e *entry) {
	if e.id < 0 && !e.open {
		delete(n.names, e.name)
	}
}

func (e *entry) mismatch() error {
	m := &MismatchError{Name: e.name, Ranks: [2]int{e.first, e.odd}, Said: [2]Request{e.want, e.oddSaid}}
	if e.odd < e.first {
		m.Ranks[0], m.Ranks[1] = m.Ranks[1], m.Ranks[0]
		m.Said[0], m.Said[1] = m.Said[1], m.Said[0]
	}
	return m
}
