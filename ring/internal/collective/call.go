package collective

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gorun/gorun/ring/internal/flow"
	"github.com/gorun/gorun/ring/internal/kernel"
)

// Call describes one call, as ranks compare it. All ranks must make equal calls.
type Call struct {
	Seq   uint64 // number of the collective on its communicator, from 1; for a message, of the one before it
	Epoch uint64 // membership generation of the job
	Kind  Kind
	Type  kernel.Type // zero for a barrier
	Op    kernel.Op   // zero unless elements are combined
	Root  uint32      // root, or the sender of a message; else zero
	Count uint64      // elements of a vector, or of one rank's part; of all parts where they are unlike
	Shape uint64      // hash of the lengths of unlike parts, else zero
}

func (c Call) String() string {
	s := fmt.Sprintf("call %d is %v", c.Seq, c.Kind)
	if c.Kind == Message {
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
	case c.Kind == Reduce || c.Kind == Gather:
		s += fmt.Sprintf(" to rank %d", c.Root)
	case c.Kind.Rooted():
		s += fmt.Sprintf(" from rank %d", c.Root)
	}
	if c.Epoch != 0 {
		s += fmt.Sprintf(" in epoch %d", c.Epoch)
	}
	return s
}

// callMagic is written in native byte order, as data is: a rank on a machine of the other order is
// detected before data moves.
const callMagic = 0x726e6732

// Encode writes c into b, whose unused bytes become zero.
func Encode(c *Call, b *flow.Sign) {
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

// Decode returns the call that another rank has encoded.
func Decode(b *flow.Sign) (Call, error) {
	if binary.NativeEndian.Uint32(b[0:]) != callMagic {
		return Call{}, errors.New("no description of a call, or one from a machine of another byte order")
	}
	c := Call{
		Kind:  Kind(b[4]),
		Type:  kernel.Type(b[5]),
		Op:    kernel.Op(b[6]),
		Seq:   binary.LittleEndian.Uint64(b[8:]),
		Epoch: binary.LittleEndian.Uint64(b[16:]),
		Count: binary.LittleEndian.Uint64(b[24:]),
		Root:  binary.LittleEndian.Uint32(b[32:]),
		Shape: binary.LittleEndian.Uint64(b[40:]),
	}
	var again flow.Sign
	if Encode(&c, &again); again != *b {
		return Call{}, errors.New("description of a call with unknown fields")
	}
	return c, nil
}

// Order returns the position of a call among all calls, as Announce of an shm.Group takes it:
// collectives are odd, and all messages between two of them share one number.
func Order(c *Call) uint64 {
	if c.Kind == Message {
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

// Word returns the fields of c as one word.
func Word(c *Call) uint64 {
	word := uint64(c.Kind)<<kindShift | uint64(c.Type)<<typeShift | uint64(c.Op)<<opShift |
		uint64(c.Root)&rootMask<<rootShift | c.Seq&seqMask<<seqShift | (c.Count^c.Shape)&countMask
	if c.Shape != 0 {
		word |= 1 << unlikeShift
	}
	return word
}

// FromWord returns the call of another rank from its word, where this rank made c. Its number is
// the nearest one to c's.
func FromWord(c *Call, word uint64) Call {
	theirs := Call{
		Epoch: c.Epoch,
		Kind:  Kind(word >> kindShift),
		Type:  kernel.Type(word >> typeShift & 0xf),
		Op:    kernel.Op(word >> opShift & 0xf),
	}
	ahead := (word>>seqShift - c.Seq) & seqMask
	theirs.Seq = c.Seq + ahead
	if ahead > seqMask/2 {
		theirs.Seq -= seqMask + 1
	}
	theirs.Root = uint32(word >> rootShift & rootMask)
	theirs.Count = word & countMask
	if word>>unlikeShift&1 == 0 {
		return theirs
	}
	// Their total is known only if it is this rank's.
	theirs.Count = 0
	theirs.Shape = word & countMask
	if theirs.Kind == c.Kind && c.Shape != 0 {
		theirs.Shape = (word ^ c.Count) & countMask
		theirs.Count = c.Count
	}
	return theirs
}
