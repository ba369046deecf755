package negotiate

import (
	"fmt"
	"strings"

	"github.com/gorun/gorun/ring/internal/collective"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// Limits of a request.
const (
	MaxName  = 4096    // bytes
	MaxShape = 256     // bytes
	MaxCount = 1 << 40 // elements of one rank
)

// Takes reports whether collectives of kind k can be negotiated.
func Takes(k collective.Kind) bool {
	switch k {
	case collective.Barrier, collective.Broadcast, collective.AllGather, collective.AllReduce,
		collective.ReduceScatter, collective.AllToAll:
		return true
	}
	return false
}

// Name returns the name of k in messages about tensors.
func Name(k collective.Kind) string {
	if k == collective.ReduceScatter {
		return "reducescatter"
	}
	return k.String()
}

// joinable reports whether ranks that have joined can take part in r: with zeros, which
// change no sum, or in a barrier. Operations on GPUs are excluded, since those ranks may
// have none.
func (r Request) joinable() bool {
	adds := r.Op == kernel.Sum || r.Op == kernel.Avg
	return r.Kind == collective.Barrier || r.Kind == collective.AllReduce && adds && !r.GPU
}

// varies reports whether ranks may give different counts to k.
func varies(k collective.Kind) bool { return k == collective.AllGather || k == collective.AllToAll }

// Request is one rank's request for one named collective. Requests of a name agree
// when they are equal, except that ranks may give different counts to an allgather
// and an alltoall.
type Request struct {
	Name  string // name of the tensor, the same on all ranks
	Shape string // optional, such as "32x16"; of an allgather and alltoall without the first dimension
	Count uint64 // elements that this rank contributes
	Root  int32  // root of a broadcast, else zero
	Kind  collective.Kind
	Type  kernel.Type // zero for a barrier
	Op    kernel.Op   // operation of an allreduce or reducescatter, else zero
	GPU   bool        // its memory is a GPU's
}

func (r Request) String() string {
	s := Name(r.Kind)
	if r.Kind == collective.Barrier {
		return s
	}
	if r.Kind.Reduces() {
		s += " " + r.Op.String()
	}
	names := strings.NewReplacer("float", "f", "uint", "u", "int", "i")
	s += fmt.Sprintf(" of %d %s", r.Count, names.Replace(r.Type.String()))
	if r.Shape != "" {
		s += fmt.Sprintf(" in shape %q", r.Shape)
	}
	if r.GPU {
		s += " on GPUs"
	}
	if r.Kind == collective.Broadcast {
		s += fmt.Sprintf(" from rank %d", r.Root)
	}
	return s
}

// Bytes returns the length of Count elements.
func (r Request) Bytes() int64 { return int64(r.Count) * int64(r.Type.Size()) }

// agrees reports whether r and other, made by two ranks, are the same operation.
func (r Request) agrees(other Request) bool {
	if varies(r.Kind) {
		r.Count = other.Count
	}
	return r == other
}

// check validates r by itself in a world of size ranks. The error does not name the tensor.
func (r Request) check(size int) error {
	switch {
	case r.Name == "":
		return fmt.Errorf("%s without a name", Name(r.Kind))
	case len(r.Name) > MaxName:
		return fmt.Errorf("a name of %d bytes, more than %d", len(r.Name), MaxName)
	case len(r.Shape) > MaxShape:
		return fmt.Errorf("a shape of %d bytes, more than %d", len(r.Shape), MaxShape)
	case !Takes(r.Kind):
		return fmt.Errorf("collective of unknown kind %d", uint8(r.Kind))
	case r.Kind == collective.Barrier && r != Request{Name: r.Name, Kind: collective.Barrier}:
		return fmt.Errorf("barrier with data")
	case r.Kind == collective.Barrier:
		return nil
	case r.Type.Size() == 0:
		return fmt.Errorf("%s of unknown dtype %d", Name(r.Kind), uint8(r.Type))
	case r.Count > MaxCount:
		return fmt.Errorf("%s of %d elements, more than %d", Name(r.Kind), r.Count, uint64(MaxCount))
	case r.Kind.Reduces() && r.Op == 0:
		return fmt.Errorf("%s needs an operation", Name(r.Kind))
	case !r.Kind.Reduces() && r.Op != 0:
		return fmt.Errorf("%s takes no operation, but has %v", Name(r.Kind), r.Op)
	case r.Kind != collective.Broadcast && r.Root != 0:
		return fmt.Errorf("%s takes no root, but has rank %d", Name(r.Kind), r.Root)
	case r.Root < 0 || int(r.Root) >= size:
		return fmt.Errorf("%s from root %d, which is not one of %d ranks", Name(r.Kind), r.Root, size)
	}
	return nil
}

// MismatchError reports that all ranks have submitted a tensor, but for different
// collectives. All ranks get it in the same step. No data has moved, and the name is free
// again.
type MismatchError struct {
	Name  string
	Ranks [2]int     // two ranks that differ, the lower one first
	Said  [2]Request // their requests
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("tensor %q differs between ranks: rank %d submitted %v, rank %d submitted %v; all ranks must "+
		"submit the same",
		e.Name, e.Ranks[0], e.Said[0], e.Ranks[1], e.Said[1])
}

// JoinedError reports that a tensor, submitted by all ranks that have not joined, needs
// those that have. All ranks get it in the same step. No data has moved, and the name is
// free again.
type JoinedError struct {
	Request       // request of the other ranks
	Joined  int   // number of ranks that have joined and had not submitted it
	First   []int // the first few of them
}

func (e *JoinedError) Error() string {
	verb := "has"
	if e.Joined > 1 {
		verb = "have"
	}
	return fmt.Sprintf("tensor %q, %v: %s %s joined, and only allreduces of sum and avg and barriers run without them",
		e.Name, e.Request, RankListOf(e.Joined, e.First), verb)
}

// DuplicateError reports that a rank submitted a name again before the operation of that
// name was done.
type DuplicateError struct {
	Name string
	Rank int
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("rank %d submitted tensor %q again while it is in flight: wait for it, or use another name",
		e.Rank, e.Name)
}
