// Package flow describes how bytes move in one step of a collective: what a rank
// sends to one other rank, what it gets from one, and what it does with it. Flows are
// plain data: package algorithms makes them, package tcp carries them out.
package flow

import "github.com/gorun/gorun/ring/internal/kernel"

// SignSize is the length of a [Sign] in bytes.
const SignSize = 64

// Sign says what the flow belongs to. It goes ahead of the bytes, and must be the
// same at both ends: a receiver takes no byte of a flow that has another.
type Sign [SignSize]byte

// None is the rank of a flow that sends to nobody, or gets from nobody.
const None = -1

// Flow is one step of a collective as one rank sees it. Sending and receiving go on
// at the same time. To and From may be the same rank. A flow with a To sends at
// least the sign, and one with a From waits for it.
//
// The first Lead parts of Send go out as fast as they can. Part Lead+i is as long as
// Recv[i] and goes out as that one is done, byte after byte: so a vector streams
// through a chain of ranks.
type Flow struct {
	Sign     *Sign
	Expect   *Sign // what comes from From, where that is another; nil: the same
	To, From int

	Send [][]byte
	Lead int
	Recv []Part

	Type kernel.DType // of the elements that are combined
	Op   kernel.Op
}

// Part is a piece of what is received.
type Part struct {
	// Into is where the result goes. It may be the memory of Send part Lead+i, or of
	// an earlier Send part whose bytes are on their way before these can come, because
	// these are made from them. With all other memory of the flow it has nothing in
	// common, but for With.
	Into []byte
	// With is nil when what comes is the result. Else the result is With op what
	// comes. It is as long as Into, and may be the same memory.
	With []byte
	// TheirsFirst makes what comes the first operand.
	TheirsFirst bool
	// Divisor, when it is more than 1, divides what was combined.
	Divisor int
}

// align is what stripes are cut at, in bytes: a cache line, which is a whole number of
// elements of every type.
const align = 64

// Cut returns the piece of b that stripe i of n carries. The pieces of all stripes make
// up b, in order.
func Cut(b []byte, i, n int) []byte {
	per := ((len(b)+n-1)/n + align - 1) &^ (align - 1)
	return b[min(i*per, len(b)):min((i+1)*per, len(b))]
}
