// Package flow describes one step of a collective: the data that a rank sends to one
// rank, the data that it receives from one, and how it combines them. Flows are plain
// data: package algorithms makes them, package tcp carries them out.
package flow

import "github.com/gorun/gorun/ring/internal/kernel"

// SignSize is the length of a [Sign] in bytes.
const SignSize = 64

// Sign identifies the call that a flow belongs to. It precedes the bytes, and must be the
// same at both ends: a receiver stores no byte of a flow with another sign.
type Sign [SignSize]byte

// None is the To of a flow that does not send, or the From of one that does not receive.
const None = -1

// Flow is one step of a collective as one rank sees it. Sending and receiving go on
// at the same time. To and From may be the same rank. A flow with a To sends at
// least the sign, and one with a From waits for it.
//
// The first Lead parts of Send are sent at once. Part Lead+i is as long as Recv[i] and is
// sent while that is received, so that a vector streams through a chain of ranks.
type Flow struct {
	Sign     *Sign
	Expect   *Sign // sign of the flow from From; nil: Sign
	To, From int

	Send [][]byte
	Lead int
	Recv []Part

	Type kernel.Type // type of the combined elements
	Op   kernel.Op
}

// Part is a piece of the received data.
type Part struct {
	// Into gets the result. It may be the memory of With, of Send part Lead+i, or of an
	// earlier Send part whose bytes are sent before these arrive, because these are made
	// from them. It must not overlap other memory of the flow.
	Into []byte
	// With, if not nil, is combined with the received bytes: the result is With op
	// received. It is as long as Into, and may be the same memory.
	With []byte
	// TheirsFirst makes the received bytes the first operand.
	TheirsFirst bool
	// Divisor, if more than 1, divides the combined elements.
	Divisor int
}

// align is the alignment of stripes in bytes: a cache line, which is a whole number of
// elements of every type.
const align = 64

// Cut returns the piece of b that stripe i of n carries. The pieces of all stripes make
// up b, in order.
func Cut(b []byte, i, n int) []byte {
	per := ((len(b)+n-1)/n + align - 1) &^ (align - 1)
	return b[min(i*per, len(b)):min((i+1)*per, len(b))]
}
