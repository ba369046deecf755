package ring

import "github.com/gorun/gorun/ring/internal/engine"

// Kind is the kind of a collective.
type Kind uint8

// The collectives. KindMessage is what [Send], [Recv] and [SendRecv] make.
const (
	KindBarrier Kind = 1 + iota
	KindBroadcast
	KindAllGather
	KindAllReduce
	KindReduce
	KindReduceScatter
	KindGather
	KindScatter
	KindAllToAll
	KindMessage
)

func (k Kind) String() string { return engine.Kind(k).String() }

func (k Kind) reduces() bool { return engine.Kind(k).Reduces() }

// Call describes one call, as ranks compare it. All ranks must make equal calls.
type Call struct {
	Seq   uint64 // 1-based number of the collective on this Comm; for a message, of the collective before it
	Epoch uint64 // membership generation of the job
	Kind  Kind
	Type  Type   // zero for a barrier
	Op    Op     // of a reduction, else zero
	Root  uint32 // of what has one: the sender of a message; else zero
	Count uint64 // elements of a vector, or of one rank's part; of all parts where they are unlike
	Shape uint64 // stands for the lengths of unlike parts, else zero
}

func (c Call) String() string {
	return engine.Call{
		Seq:   c.Seq,
		Epoch: c.Epoch,
		Kind:  engine.Kind(c.Kind),
		Type:  engine.Type(c.Type),
		Op:    engine.Op(c.Op),
		Root:  c.Root,
		Count: c.Count,
		Shape: c.Shape,
	}.String()
}

func callOf(c engine.Call) Call {
	return Call{
		Seq:   c.Seq,
		Epoch: c.Epoch,
		Kind:  Kind(c.Kind),
		Type:  Type(c.Type),
		Op:    Op(c.Op),
		Root:  c.Root,
		Count: c.Count,
		Shape: c.Shape,
	}
}
