package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/tcp"
)

// Kind identifies a collective.
type Kind uint8

// The collectives. KindMessage is a point-to-point message.
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

func (k Kind) String() string {
	names := [...]string{"", "barrier", "broadcast", "allgather", "allreduce", "reduce", "reduce-scatter", "gather",
		"scatter", "alltoall", "message"}
	if k == 0 || int(k) >= len(names) {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return names[k]
}

// rooted reports whether one rank has a distinct role in the collective.
func (k Kind) rooted() bool {
	switch k {
	case KindBroadcast, KindReduce, KindGather, KindScatter, KindMessage:
		return true
	}
	return false
}

// Reduces reports whether elements are combined.
func (k Kind) Reduces() bool {
	return k == KindAllReduce || k == KindReduce || k == KindReduceScatter
}

// Call describes one call of a collective. All ranks must make equal calls.
type Call struct {
	Seq   uint64 // number of the collective on its communicator, from 1; for a message, of the one before it
	Epoch uint64 // membership generation of the job
	Kind  Kind
	Type  Type   // zero for a barrier
	Op    Op     // of a reduction, else zero
	Root  uint32 // of what has one: the sender of a message; else zero
	Count uint64 // elements of a vector, or of one rank's part; of all parts where they are unlike
	Shape uint64 // stands for the lengths of unlike parts, else zero
}

func (c Call) String() string {
	s := fmt.Sprintf("call %d is %v", c.Seq, c.Kind)
	if c.Kind == KindMessage {
		s = fmt.Sprintf("after call %d comes a message", c.Seq)
	}
	if c.Op != 0 {
		s += fmt.Sprintf(" %v", c.Op)
	}
	switch {
	case c.Shape != 0 && c.Count == 0:
		s += fmt.Sprintf(" of %v in unlike parts (%#x)", c.Type, c.Shape)
	case c.Shape != 0:
		s += fmt.Sprintf(" of %d %v in unlike parts (%#x)", c.Count, c.Type, c.Shape)
	case c.Type != 0:
		s += fmt.Sprintf(" of %d %v", c.Count, c.Type)
	}
	switch {
	case c.Kind == KindReduce || c.Kind == KindGather:
		s += fmt.Sprintf(" to rank %d", c.Root)
	case c.Kind.rooted():
		s += fmt.Sprintf(" from rank %d", c.Root)
	}
	if c.Epoch != 0 {
		s += fmt.Sprintf(" in epoch %d", c.Epoch)
	}
	return s
}

// callSize is the length of an encoded call; unused bytes are zero.
const callSize = 64

// callMagic is written in native byte order, as data is: a rank on a machine of the other order is
// detected before data moves.
const callMagic = 0x726e6732

func (c Call) encode(b *[callSize]byte) {
	clear(b[:])
	binary.NativeEndian.PutUint32(b[0:], callMagic)
	b[4] = byte(c.Kind)
	b[5] = byte(c.Type)
	b[6] = byte(c.Op)
	binary.LittleEndian.PutUint64(b[8:], c.Seq)
	binary.LittleEndian.PutUint64(b[16:], c.Epoch)
	binary.LittleEndian.PutUint64(b[24:], c.Count)
	binary.LittleEndian.PutUint32(b[32:], c.Root)
	binary.LittleEndian.PutUint64(b[40:], c.Shape)
}

func decodeCall(b *[callSize]byte) (Call, error) {
	if binary.NativeEndian.Uint32(b[0:]) != callMagic {
		return Call{}, errors.New("no description of a call, or one from a machine of another byte order")
	}
	c := Call{
		Kind:  Kind(b[4]),
		Type:  Type(b[5]),
		Op:    Op(b[6]),
		Seq:   binary.LittleEndian.Uint64(b[8:]),
		Epoch: binary.LittleEndian.Uint64(b[16:]),
		Count: binary.LittleEndian.Uint64(b[24:]),
		Root:  binary.LittleEndian.Uint32(b[32:]),
		Shape: binary.LittleEndian.Uint64(b[40:]),
	}
	var again [callSize]byte
	if c.encode(&again); again != *b {
		return Call{}, errors.New("description of a call with unknown fields")
	}
	return c, nil
}

// Compare reports whether two ranks in these calls can finish together, and if not, which one is
// later.
func Compare(mine, theirs *flow.Sign) tcp.Relation {
	a, aerr := decodeCall((*[callSize]byte)(mine))
	b, berr := decodeCall((*[callSize]byte)(theirs))
	if aerr != nil || berr != nil {
		return tcp.Clash
	}
	first := a.Order()
	second := b.Order()
	switch {
	case first < second:
		return tcp.Later
	case first > second:
		return tcp.Earlier
	}
	switch a.Kind {
	case KindMessage:
		return tcp.Together
	case KindGather, KindScatter, KindAllToAll:
		a.Count = 0
		b.Count = 0 // what each two ranks exchange
	}
	if a != b {
		return tcp.Clash
	}
	return tcp.Together
}

// Order returns the position of a call among all calls, as [shm.Group.Announce] takes it:
// collectives are odd, and all messages between two of them share one number.
func (c *Call) Order() uint64 {
	if c.Kind == KindMessage {
		return 2 * c.Seq
	}
	return 2*c.Seq - 1
}

// The fields of a call as one word, for ranks that share memory: 4 bits of kind, type and
// op each, 11 of the root, the last 4 of the number, one that says that parts are unlike,
// 36 of the count. One host has fewer ranks, and one buffer fewer elements, than that.
// Where parts are unlike, their shape is in the count.
const (
	kindShift   = 60
	typeShift   = 56
	opShift     = 52
	rootShift   = 41
	seqShift    = 37
	unlikeShift = 36

	rootMask  = 1<<(opShift-rootShift) - 1
	seqMask   = 1<<(rootShift-seqShift) - 1
	countMask = 1<<unlikeShift - 1
)

func (c *Call) sign() uint64 {
	sign := uint64(c.Kind)<<kindShift | uint64(c.Type)<<typeShift | uint64(c.Op)<<opShift |
		uint64(c.Root)&rootMask<<rootShift | c.Seq&seqMask<<seqShift | (c.Count^c.Shape)&countMask
	if c.Shape != 0 {
		sign |= 1 << unlikeShift
	}
	return sign
}

// signed decodes the call that another rank made where this one made c. Its number is the nearest
// one to c's.
func (c Call) signed(sign uint64) Call {
	theirs := Call{
		Epoch: c.Epoch,
		Kind:  Kind(sign >> kindShift),
		Type:  Type(sign >> typeShift & 0xf),
		Op:    Op(sign >> opShift & 0xf),
	}
	ahead := (sign>>seqShift - c.Seq) & seqMask
	theirs.Seq = c.Seq + ahead
	if ahead > seqMask/2 {
		theirs.Seq -= seqMask + 1
	}
	theirs.Root = uint32(sign >> rootShift & rootMask)
	theirs.Count = sign & countMask
	if sign>>unlikeShift&1 == 0 {
		return theirs
	}
	// Their total is known only if it is this rank's.
	theirs.Count = 0
	theirs.Shape = sign & countMask
	if theirs.Kind == c.Kind && c.Shape != 0 {
		theirs.Shape = (sign ^ c.Count) & countMask
		theirs.Count = c.Count
	}
	return theirs
}
