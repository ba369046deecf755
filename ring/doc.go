// Package ring runs collectives among the ranks of a gorun job: allreduce, reduce-scatter,
// allgather, broadcast and others, through shared memory inside a host and authenticated TCP
// connections between hosts.
//
// Every rank runs the same program. It joins the others with [Init], and then all
// ranks make the same calls in the same order:
//
//	func main() {
//		ctx := context.Background()
//		comm, err := ring.Init(ctx) // started by gorun, or alone: then a world of one
//		if err != nil {
//			log.Fatal(err)
//		}
//		defer comm.Close()
//
//		gradient := computeMyPart(comm.Rank(), comm.Size())
//		if err := ring.AllReduce(ctx, comm, gradient, ring.Avg); err != nil {
//			log.Fatal(err) // a rank died: start again from a checkpoint
//		}
//		if comm.Rank() == 0 {
//			fmt.Println(gradient[0]) // the same bits on every rank
//		}
//	}
//
// Run it on two hosts with: gorun -np 4 -H f1:2,f2:2 ./program
//
// # Calls
//
// The collectives are functions because Go has no generic methods; each has a file of its name.
// Lengths and counts are in elements. A call returns when this rank's part is done. Calls on one
// Comm from several goroutines run one after the other; the goroutines must agree on the order
// that all ranks use. Ranks compare the position, operation, type and length of a call before data
// moves. If these differ, the ranks that detect it fail with a [*MismatchError] and the others with
// a [*PeerError].
//
// [Comm.Start] and the Async functions begin a call and return a [Handle] to wait for. [Split] and
// [Group] make communicators of some of the ranks. [Comm.Do] takes types and lengths that are known
// only at run time. A [Queue] takes named tensors in any order, and continues when some ranks run
// out of data ([Queue.Join]). A [Device] runs collectives on buffers in GPU memory.
//
// All ranks get the same bits. Every run with the same ranks on the same hosts gets the same bits
// too if there are at most two hosts, or RING_NETWORK is set: else the order in which ranks are
// added depends on the measured speed of the network. With RING_ORDER=rank the bits depend on the
// number of ranks only, and not on their hosts.
//
// # Settings
//
// All ranks need the same settings, from the environment:
//
//   - RING_TRANSPORT: auto (the default); tcp keeps ranks of one host from sharing memory; shm
//     fails if they cannot share it.
//   - RING_STREAMS: TCP connections between two ranks, 1 by default. More help if the network
//     limits one connection.
//   - RING_RAILS: how many of the networks that join two hosts are used, at most 8. By default 8
//     if gorun --network-interface names several, or 1.
//   - RING_CHECKSUM=1: detect corrupted data beyond TCP's own checksum. gorun --encrypt encrypts
//     it.
//   - RING_CONGESTION: the congestion control of the connections.
//   - RING_ALGORITHM: auto (the default), doubling, tree, circulant or ring: the algorithm over
//     the network, for the collectives that it can do. By default what costs least.
//   - RING_NETWORK: the latency and speed of the network, such as 20us,10Gb/s, for the choice of
//     algorithms. By default they are measured.
//   - RING_ORDER: rank adds in an order that depends on the ranks only, wherever they are; auto
//     (the default) in the order that costs least.
//   - RING_STALL: how long a call waits until gorun names the missing ranks, 25s by default; 0 is
//     never.
//   - RING_SIMD: off, neon (arm64), avx2 or avx512 limits the instructions that combine elements.
//     Results keep the same bits.
//
// # Failure
//
// When a rank dies, every pending and later call of every rank fails with a [*PeerError] that names
// it. A call whose context ends fails with the context's error and ends the job, because the other
// ranks cannot finish without it. The first error breaks a Comm permanently: every later call
// returns that error at once. Output buffers are then undefined; input buffers keep their contents.
// Invalid arguments are an error too, but nothing is sent and the Comm stays usable.
package ring
