package engine

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
	"github.com/gorun/gorun/ring/internal/shm"
	"github.com/gorun/gorun/ring/internal/tcp"
)

// Fabric runs the collectives of a communicator on raw bytes, one call at a time. Every rank makes
// the same calls in the same order; calls that differ end with a [*MismatchError], and lost ranks
// with a [*LinkError]. Only Interrupt may be called concurrently.
//
// Ranks that share memory are a domain. With one domain, shared memory does all the work; where no
// two ranks share memory, the network does. Otherwise the two are stacked: ranks combine inside
// their domains, each leader exchanges its shard with its counterparts in the other domains, and
// the result is shared inside the domains.
type Fabric struct {
	Layout
	shardMax int // bytes of a block that each leader exchanges; 0: what costs least
	kernels  kernel.Set
	cost     algorithms.Cost // cost of the network between the domains

	shared *shm.Group       // ranks of this domain; nil for a domain of one
	net    *tcp.Net         // nil when there is only one domain
	all    *algorithms.Team // all ranks; nil when there is only one domain
	peers  *algorithms.Team // leaders of this rank's number in each domain; nil if it is no leader
	relay  *worker          // carries for the peers while memory goes on; nil without peers

	sign, expect flow.Sign // signs of the current call
	regions      []shm.Region
	parts, given [][]byte
	offs, sends  []int // byte offset of each rank's part, and the end of the last one
	scratch      []byte

	flat bool // reductions of floating point are made by flows between all ranks
}

// New joins the ranks of l. Shared is nil for a domain of one, net where there is one domain.
// Shard is the bytes of a block that each leader exchanges, a multiple of 8, or 0 for what costs
// least. The Fabric closes shared and net.
func New(l Layout, shared *shm.Group, net *tcp.Net, shard int, kernels kernel.Set) *Fabric {
	f := &Fabric{
		Layout:   l,
		shardMax: shard,
		kernels:  kernels,
		shared:   shared,
		net:      net,
	}
	f.regions = make([]shm.Region, len(l.mine()))
	f.parts = make([][]byte, l.Size())
	f.given = make([][]byte, l.Size())
	f.offs = make([]int, l.Size()+1)
	f.sends = make([]int, l.Size()+1)
	if l.Whole() {
		return f
	}
	everyone := make([]int, l.Size())
	for rank := range everyone {
		everyone[rank] = rank
	}
	f.all = algorithms.New(net, everyone, l.rank, kernels)
	switch counterparts := l.counterparts(); {
	case l.split():
		f.peers = f.all
	case counterparts != nil:
		f.peers = algorithms.New(net, counterparts, l.domain, kernels)
	}
	if f.peers != nil && !l.split() {
		f.relay = newWorker(f.peers)
	}
	if shared != nil {
		shared.Meanwhile(f.checkCalls)
	}
	return f
}

// checkCalls checks the links for ranks in other calls while this rank waits for one in shared
// memory: the two may wait for each other around a circle.
func (f *Fabric) checkCalls() error {
	if f.relay != nil && f.relay.busy {
		return nil // its flow does that
	}
	return f.net.CheckCalls(&f.sign)
}

// Close ends what New started and leaves the domain and the network. Orderly means that all calls
// have succeeded: other ranks may still be in the last one, and get this rank's data first.
func (f *Fabric) Close(orderly bool) {
	if f.net != nil && orderly {
		f.net.Deliver()
	}
	if f.net != nil {
		f.net.Interrupt()
	}
	if f.relay != nil {
		f.relay.close()
	}
	if f.shared != nil {
		_ = f.shared.Close() // an unmap that fails has no remedy
	}
	if f.net != nil {
		_ = f.net.Close() // after a failure, unsent data is useless
	}
}

// Interrupt ends waits for the network. Waits for shared memory end by the Comm's flag.
func (f *Fabric) Interrupt() {
	if f.net != nil {
		f.net.Interrupt()
	}
}

// Assemble announces the next collective, and reports whether all ranks come to it within some
// microseconds. It is false where not all ranks share memory.
func (f *Fabric) Assemble(call *collective.Call) bool {
	return f.shared != nil && f.Whole() && f.shared.Assemble(collective.Order(call), collective.Word(call))
}

// Prompt reports whether a message can be made at once, or within some microseconds. It is false
// between hosts.
func (f *Fabric) Prompt(w *collective.Collective) bool {
	if f.shared == nil || w.To != none && !f.Near(w.To) || w.From != none && !f.Near(w.From) {
		return false
	}
	to := shm.None
	from := shm.None
	if w.To != none {
		to = f.place(w.To)
	}
	if w.From != none {
		from = f.place(w.From)
	}
	return f.shared.Prompt(to, w.Src.Len*w.Type.Size(), from)
}

// Run makes one call. It neither changes nor keeps the description.
func (f *Fabric) Run(w *collective.Collective, call *collective.Call) error {
	if f.net != nil {
		collective.Encode(call, &f.sign)
	}
	if f.shared != nil {
		f.shared.Announce(collective.Order(call), collective.Word(call))
	}
	dst := w.Dst.Bytes(w.Type)
	src := w.Src.Bytes(w.Type)
	var err error
	switch w.Kind {
	case collective.Barrier:
		err = f.barrier(call)
	case collective.Broadcast:
		err = f.broadcast(call, dst)
	case collective.AllReduce:
		err = f.allReduce(call, dst, src)
	case collective.Reduce:
		err = f.reduce(call, dst, src)
	case collective.ReduceScatter:
		f.measure(f.offs, w.Counts, w.Type, w.Dst.Len)
		err = f.reduceScatter(call, dst, src)
	case collective.AllGather:
		f.measure(f.offs, w.Counts, w.Type, w.Src.Len)
		err = f.allGather(call, dst, src)
	case collective.Gather:
		f.measure(f.offs, w.Counts, w.Type, w.Src.Len)
		err = f.gather(call, dst, src)
	case collective.Scatter:
		f.measure(f.offs, w.Counts, w.Type, w.Dst.Len)
		err = f.scatter(call, dst, src)
	case collective.AllToAll:
		f.measure(f.offs, w.Counts, w.Type, w.Dst.Len/f.Size())
		f.measure(f.sends, w.Sends, w.Type, w.Src.Len/f.Size())
		err = f.allToAll(call, dst, src)
	case collective.Message:
		err = f.message(call, w.To, src, w.From, dst)
	}
	if f.net != nil {
		clear(f.parts) // do not keep the caller's memory alive
		clear(f.given)
	}
	if w.Type == kernel.Bool && w.Fills(f.rank) {
		kernel.Normalize(dst) // also after an error: a hostile rank may have sent any bytes
	}
	if err != nil {
		return f.explain(call, err)
	}
	return nil
}

// Brief reports whether the last call took some microseconds at most: its vector is short, and no
// wait was longer than the spinning of ranks that share memory.
func (f *Fabric) Brief(bytes int) bool {
	return bytes <= briefBytes && f.net == nil && (f.shared == nil || !f.shared.Waited())
}

// briefBytes is a vector that takes some microseconds to combine.
const briefBytes = 32 << 10

// measure fills offs with the start of each rank's part in bytes: counts elements each, or n.
func (f *Fabric) measure(offs, counts []int, t kernel.Type, n int) {
	at := 0
	for rank := range f.Size() {
		offs[rank] = at
		if counts != nil {
			n = counts[rank]
		}
		at += n * t.Size()
	}
	offs[f.Size()] = at
}

// part returns rank's part of a vector that is cut at f.offs.
func (f *Fabric) part(vector []byte, rank int) []byte {
	return vector[f.offs[rank]:f.offs[rank+1]]
}

// reduction returns how the elements of call are combined, and divided at the end.
func (f *Fabric) reduction(call *collective.Call) algorithms.Reduction {
	r := algorithms.Reduction{Type: call.Type, Op: call.Op}
	if call.Op == kernel.Avg {
		r.Divisor = f.Size()
	}
	return r
}

// room returns n bytes of scratch memory, aligned for every type. Each call reuses it.
func (f *Fabric) room(n int) []byte {
	if cap(f.scratch) < n {
		f.scratch = memory(max(n, 4096))
	}
	return f.scratch[:n]
}

// barrier meets inside the domains, then among their first leaders, then inside again.
func (f *Fabric) barrier(call *collective.Call) error {
	if f.shared != nil {
		if err := f.shared.Barrier(collective.Word(call)); err != nil {
			return err
		}
	}
	if f.Whole() {
		return nil
	}
	if f.index == 0 {
		if err := f.peers.Barrier(&f.sign); err != nil {
			return err
		}
	}
	if f.shared != nil {
		return f.shared.Barrier(collective.Word(call))
	}
	return nil
}

// explain converts errors of memory and network to the engine's.
func (f *Fabric) explain(call *collective.Call, err error) error {
	var sign *shm.SignError
	var length *shm.LengthError
	var left *shm.LeftError
	var flowSign *tcp.SignError
	var peer *tcp.PeerError
	switch {
	case errors.As(err, &sign):
		return &MismatchError{
			Rank:   f.rank,
			Peer:   f.mine()[sign.Rank],
			Mine:   *call,
			Theirs: collective.FromWord(call, sign.Theirs),
		}
	case errors.As(err, &length):
		mine := *call
		theirs := *call
		mine.Count = uint64(length.Mine / call.Type.Size())
		theirs.Count = uint64(length.Theirs / call.Type.Size())
		return &MismatchError{
			Rank:   f.rank,
			Peer:   f.mine()[length.Rank],
			Mine:   mine,
			Theirs: theirs,
		}
	case errors.As(err, &left):
		return &LinkError{f.mine()[left.Rank], errors.New("it has ended or left")}
	case errors.As(err, &flowSign):
		theirs, derr := collective.Decode(&flowSign.Theirs)
		if derr != nil {
			return &LinkError{flowSign.Rank, derr}
		}
		mine := *call
		if expected, derr := collective.Decode(&f.expect); derr == nil && mine.Kind == expected.Kind &&
			expected.Kind == theirs.Kind {
			mine = expected
		}
		return &MismatchError{
			Rank:   f.rank,
			Peer:   flowSign.Rank,
			Mine:   mine,
			Theirs: theirs,
		}
	case errors.As(err, &peer):
		return &LinkError{peer.Rank, peer.Err}
	}
	return err
}

// MismatchError reports that two ranks made different calls where all ranks must make the same. No
// data has moved.
type MismatchError struct {
	Rank, Peer   int             // this rank and the other
	Mine, Theirs collective.Call // calls of the two
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("ring: calls differ: rank %d: %v; rank %d: %v", e.Rank, e.Mine, e.Peer, e.Theirs)
}

// LinkError is a failure of the link to one rank.
type LinkError struct {
	Rank int
	Err  error
}

func (e *LinkError) Error() string { return fmt.Sprintf("link to rank %d: %v", e.Rank, e.Err) }
func (e *LinkError) Unwrap() error { return e.Err }

// memory returns n bytes, aligned for every type.
func memory(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), 8*len(words))
}

// pointer returns the address of b's first byte.
func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// Compare reports whether two ranks in these calls can finish together, and if not, which one is
// later.
func Compare(mine, theirs *flow.Sign) tcp.Relation {
	a, aerr := collective.Decode(mine)
	b, berr := collective.Decode(theirs)
	if aerr != nil || berr != nil {
		return tcp.Clash
	}
	first := collective.Order(&a)
	second := collective.Order(&b)
	switch {
	case first < second:
		return tcp.Later
	case first > second:
		return tcp.Earlier
	}
	switch a.Kind {
	case collective.Message:
		return tcp.Together
	case collective.Gather, collective.Scatter, collective.AllToAll:
		a.Count = 0
		b.Count = 0 // counts differ by pair of ranks
	}
	if a != b {
		return tcp.Clash
	}
	return tcp.Together
}
