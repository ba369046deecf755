package ring

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind is which collective a call is.
type Kind uint8

// The collectives.
const (
	KindBarrier Kind = 1 + iota
	KindBroadcast
	KindAllGather
	KindAllReduce
)

func (k Kind) String() string {
	switch k {
	case KindBarrier:
		return "barrier"
	case KindBroadcast:
		return "broadcast"
	case KindAllGather:
		return "allgather"
	case KindAllReduce:
		return "allreduce"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Call describes one call of a collective. All ranks must make equal calls.
type Call struct {
	Seq   uint64 // the how-manieth call on this Comm, from 1
	Epoch uint64 // membership generation of the job
	Kind  Kind
	Type  Type   // zero for a barrier
	Op    Op     // of an allreduce, else zero
	Root  uint32 // of a broadcast, else zero
	Count uint64 // elements that one rank gives
}

func (c Call) String() string {
	s := fmt.Sprintf("call %d is %v", c.Seq, c.Kind)
	switch c.Kind {
	case KindBroadcast:
		s += fmt.Sprintf(" of %d %v from rank %d", c.Count, c.Type, c.Root)
	case KindAllGather:
		s += fmt.Sprintf(" of %d %v", c.Count, c.Type)
	case KindAllReduce:
		s += fmt.Sprintf(" %v of %d %v", c.Op, c.Count, c.Type)
	}
	if c.Epoch != 0 {
		s += fmt.Sprintf(" in epoch %d", c.Epoch)
	}
	return s
}

// callSize is the length of a call on the wire; unused bytes are zero.
const callSize = 64

// callMagic is written in the machine's own byte order, as the data is: a rank
// on a machine of the other order is found out before its data is taken.
const callMagic = 0x726e6731

func (c Call) encode(b *[callSize]byte) {
	clear(b[:])
	binary.NativeEndian.PutUint32(b[0:], callMagic)
	b[4], b[5], b[6] = byte(c.Kind), byte(c.Type), byte(c.Op)
	binary.LittleEndian.PutUint64(b[8:], c.Seq)
	binary.LittleEndian.PutUint64(b[16:], c.Epoch)
	binary.LittleEndian.PutUint64(b[24:], c.Count)
	binary.LittleEndian.PutUint32(b[32:], c.Root)
}

func decodeCall(b *[callSize]byte) (Call, error) {
	if binary.NativeEndian.Uint32(b[0:]) != callMagic {
		return Call{}, errors.New("no description of a call, or one from a machine of another byte order")
	}
	c := Call{
		Kind: Kind(b[4]), Type: Type(b[5]), Op: Op(b[6]),
		Seq:   binary.LittleEndian.Uint64(b[8:]),
		Epoch: binary.LittleEndian.Uint64(b[16:]),
		Count: binary.LittleEndian.Uint64(b[24:]),
		Root:  binary.LittleEndian.Uint32(b[32:]),
	}
	var again [callSize]byte
	if c.encode(&again); again != *b {
		return Call{}, errors.New("description of a call with unknown fields")
	}
	return c, nil
}
