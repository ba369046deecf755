package collective

import "fmt"

// Kind identifies a collective.
type Kind uint8

// The collectives. Message is what Send, Recv and SendRecv make.
const (
	Barrier Kind = 1 + iota
	Broadcast
	AllGather
	AllReduce
	Reduce
	ReduceScatter
	Gather
	Scatter
	AllToAll
	Message
)

func (k Kind) String() string {
	names := [...]string{"", "barrier", "broadcast", "allgather", "allreduce", "reduce", "reduce-scatter", "gather",
		"scatter", "alltoall", "message"}
	if k == 0 || int(k) >= len(names) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return names[k]
}

// Rooted reports whether one rank has a distinct role in the collective.
func (k Kind) Rooted() bool {
	switch k {
	case Broadcast, Reduce, Gather, Scatter, Message:
		return true
	}
	return false
}

// Reduces reports whether elements are combined.
func (k Kind) Reduces() bool {
	return k == AllReduce || k == Reduce || k == ReduceScatter
}
