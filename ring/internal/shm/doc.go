// Package shm moves data between the ranks of one host through one piece of
// shared memory.
//
// Every rank has a staging area of a few slots. A large vector passes through
// them block by block: a rank copies into its slot what the others will reduce,
// reduces its own stripe of the block straight from its own buffer and the
// others' slots, leaves the result in its slot, and copies the others' stripes
// out of theirs. So the vector is read from and written to main memory once,
// staging stays in cache, all ranks add at the same time, and a rank copies in
// the next block while the others still reduce this one.
//
// Ranks tell each other how far they are by counters that only grow, each on
// cache lines of its own; nothing is ever reset, so no second barrier is needed.
//
// The memory is a memfd: it has no name that could be left behind, and the
// size of /dev/shm does not limit it. The other ranks open it through
// /proc/PID/fd, which works for the same user in the same process namespace;
// where it does not, the ranks do not share memory and [Join] says so.
package shm
