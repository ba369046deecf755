// Package rails carries one ordered stream of bytes between two ranks over several TCP
// connections, its lanes: one for each rail, a pair of interfaces that joins their hosts.
//
// The stream is cut into segments, each with a header that says where it belongs. A segment goes to
// the lane on which it would arrive first, by what that has in flight and how fast it delivered
// lately; so shares follow the rails' speeds. A sender keeps a copy of each byte until the
// receiver has taken it, since the caller's memory is free after Send. The copy is made while the
// bytes are in the cache. To wait for the receiver instead would add a round trip to each flow.
//
// A lane whose network seems dead gets no more segments, and what it has not delivered goes to
// others. The receiver drops what it gets twice. The lower rank dials again, and a lane that comes
// back is used again. Only the last lane's end is the stream's.
//
// # Order, and why nothing deadlocks
//
// The receiver reads lanes in the order of the stream, straight into place. A lane whose next
// segment lies ahead waits in the kernel. On each lane offsets rise, so the next bytes are always
// at the head of one, until a segment is sent again: then it may lie behind later ones.
// Acknowledgements may lie behind segments too, which this rank does not receive yet because it
// sends first. So a rank that makes no progress for 20 ms reads ahead into memory. There is room
// for all: the other rank sends at most a window beyond what it knows to be received. Hence every
// lane can be emptied at any time, and what a rank waits for reaches the head.
package rails
