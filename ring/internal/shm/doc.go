// Package shm moves data between ranks that share memory, through one piece of it.
//
// [Join] determines which ranks those are, regardless of host names and addresses: two
// ranks share memory if one has mapped the other's and read the expected nonce in it.
// Ranks that share memory are a domain; each domain of two or more is a [Group].
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
// of 8 KiB takes one round: every rank publishes its data and reads the others'.
//
// Ranks publish their progress in counters that only grow, each on cache lines of its own.
// Nothing is ever reset, so no second barrier is needed.
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
// A waiting rank spins for some microseconds if every rank has a core; then it polls
// between yields of the processor; then it sleeps, and checks at intervals that the other
// rank is alive. With more ranks than cores it yields at once, which costs one process
// switch where a futex costs two and a wakeup. Spinning longer is no gain: two ranks may
// be on one core even if there are enough, and then spinning delays the other, until one
// of them moves (type crowd). A yield to a thread that computes, such as one of the program's
// own, lasts for a slice of some milliseconds, and a wakeup preempts that thread: after a yield
// that took long a rank sleeps at once for a while, if every rank has a core.
//
// # The memory
//
// The memory is a memfd: no name can be left behind, and the size of /dev/shm does not
// limit it. The other ranks open it through
// /proc/PID/fd, which works for the same user in the same process namespace.
// It is reserved at the start and sealed against shrinking, so that no access raises
// SIGBUS. Other ranks can corrupt a result, but cannot make this rank write elsewhere or
// more.
package shm
