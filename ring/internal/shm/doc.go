// Package shm moves data between ranks that share memory, through one piece of it.
//
// [Join] finds out which ranks those are. It believes neither host names nor
// addresses: a rank shares memory with another when it has mapped what that one
// made, and read there the number that it was told. The ranks that do are a
// domain; each domain of two or more is a [Group].
//
// # Collectives
//
// Every rank has a staging area of a few slots. A large vector passes through
// them block by block: a rank copies into its slot what the others will reduce,
// reduces its own stripe of the block straight from its own buffer and the
// others' slots, leaves the result in its slot, and copies the others' stripes
// out of theirs. So the vector is read from and written to main memory once,
// staging stays in cache, all ranks add at the same time, and a rank copies in
// the next block while the others still reduce this one. A reduce-scatter ends
// before the last step; an all-gather is the last step alone. What fits a cell
// of 8 KiB takes one round: every rank shows all it has, and reads all others.
//
// Ranks tell each other how far they are by counters that only grow, each on
// cache lines of its own; nothing is ever reset, so no second barrier is needed.
//
// # Messages
//
// [Group.Swap] sends from one rank to another, through an outbox of a few boxes
// that each rank has for all its messages, and a line for every pair of ranks
// that says how many blocks were put and taken. A tiny message travels in that
// line.
//
// # Waiting
//
// A rank that waits looks without pause for some microseconds, if the ranks have
// a core each; then between yields of the processor; then it sleeps, and looks
// now and then whether the other still lives. With more ranks than cores it yields
// at once: it costs one switch of processes where a futex costs two and a wake.
// To look for longer is no gain: two ranks may be on one core however many there
// are, and then each look is time that the other needs.
//
// # The memory
//
// The memory is a memfd: it has no name that could be left behind, and the
// size of /dev/shm does not limit it. The other ranks open it through
// /proc/PID/fd, which works for the same user in the same process namespace.
// It is all reserved at the start and sealed against shrinking, so that no access
// is a SIGBUS. What other ranks write there may spoil a result, but never tells
// this rank where to write, or how much.
package shm
