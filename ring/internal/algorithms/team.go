package algorithms

import (
	"unsafe"

	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// Carrier carries out flows, one at a time.
type Carrier interface {
	Run(f *flow.Flow) error
}

// Team is a subset of a communicator's ranks, as one of them sees it. Its members are
// numbered from 0. All members make the same calls in the same order, one at a time.
// In steady state no call allocates.
type Team struct {
	me      int
	ranks   []int // ranks of the communicator, by member
	carrier Carrier
	kernels kernel.Set
	cost    Cost
	only    Algorithm    // wherever it can do a collective; 0: the fastest
	order   *kernel.Tree // of reductions of floating point; nil: that which costs least

	flow    flow.Flow // the one under way
	skips   []int     // see skips
	blocks  [][]byte  // current memory of each member's block
	offs    []int     // offsets of blocks in scratch memory
	scratch []byte
	sources []unsafe.Pointer // vectors of all members, to be combined in an order
}

// New makes the team of ranks, of which this one is number me.
func New(carrier Carrier, ranks []int, me int, kernels kernel.Set) *Team {
	n := len(ranks)
	return &Team{
		me:      me,
		ranks:   ranks,
		carrier: carrier,
		kernels: kernels,
		skips:   skips(n),
		blocks:  make([][]byte, n),
		offs:    make([]int, n),
	}
}

// Tune sets the costs by which algorithms are chosen, and the only algorithm that may be, or 0. All
// members set the same, before the first collective that has a choice.
func (t *Team) Tune(c Cost, only Algorithm) {
	t.cost = c
	t.only = only
}

// Size returns the number of members.
func (t *Team) Size() int { return len(t.ranks) }

// begin clears the flow for the next step, from member from to member to.
func (t *Team) begin(sign *flow.Sign, to, from int) *flow.Flow {
	f := &t.flow
	f.Sign = sign
	f.Expect = nil
	f.To = t.rank(to)
	f.From = t.rank(from)
	f.Send = f.Send[:0]
	f.Recv = f.Recv[:0]
	f.Lead = 0
	return f
}

// run carries the flow out. The caller's memory is not kept.
func (t *Team) run(f *flow.Flow) error {
	err := t.carrier.Run(f)
	clear(f.Send)
	clear(f.Recv)
	return err
}

// lead adds a part that is sent without waiting.
func lead(f *flow.Flow, b []byte) {
	f.Send = append(f.Send, b)
	f.Lead = len(f.Send)
}

// relay adds a part that is sent as it is received.
func relay(f *flow.Flow, p flow.Part) {
	f.Recv = append(f.Recv, p)
	f.Send = append(f.Send, p.Into)
}

// last makes the part that relay added most recently stay here.
func last(f *flow.Flow) { f.Send = f.Send[:len(f.Send)-1] }

func (t *Team) rank(member int) int {
	if member == flow.None {
		return flow.None
	}
	return t.ranks[member]
}

// wrap brings the number of a member back into range: members form a circle.
func (t *Team) wrap(member int) int {
	return ((member % t.Size()) + t.Size()) % t.Size()
}

// away returns the member whose number is distance higher than this one's. distance may be
// negative.
func (t *Team) away(distance int) int { return t.wrap(t.me + distance) }

// room returns scratch memory of n bytes, aligned for every type. It is the same
// memory at each call.
func (t *Team) room(n int) []byte {
	if cap(t.scratch) < n {
		t.scratch = make([]byte, max(n, 4096)) // the allocator aligns memory of this size
	}
	return t.scratch[:n]
}

// Span returns block i of n of a vector whose elements have elem bytes each.
func Span(vector []byte, elem, i, n int) []byte {
	lo, hi := Bounds(len(vector), elem, i, n)
	return vector[lo:hi]
}

// Bounds returns the offsets at which block i of n begins and ends in a vector of bytes bytes,
// whose elements have elem bytes each. If the division has a remainder, the first blocks are one
// element longer.
func Bounds(bytes, elem, i, n int) (lo, hi int) {
	count := bytes / elem
	short := count / n
	longer := count % n
	lo = i*short + min(i, longer)
	hi = lo + short
	if i < longer {
		hi++
	}
	return lo * elem, hi * elem
}
