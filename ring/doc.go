// Package ring lets the ranks of a gorun job combine and exchange their numbers:
// allreduce, reduce-scatter, allgather, broadcast and the other collectives, through
// shared memory inside a host and authenticated TCP connections between hosts.
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
// The collectives are functions, not methods, because Go has no generic methods.
// A call returns when this rank's part is done. Calls on one Comm from several
// goroutines run one after the other; since all ranks must make the same calls in
// the same order, such goroutines have to agree on that order themselves. What a
// call is (its place in the order, operation, type and length) is compared where
// ranks meet, before data is taken. If it differs, the calls fail with a
// [*MismatchError] where the difference was seen and with a [*PeerError] elsewhere.
//
// [Comm.Start] and the Async functions begin a call and return a [Handle] to wait for.
// [Split] makes communicators of some of the ranks. [Comm.Do] takes types and lengths
// that are known only at run time. A [Queue] takes calls by name, in any order,
// and goes on when some ranks run out of data ([Queue.Join]).
//
// All ranks get the same bits, and get them again in every run with the same ranks on
// the same hosts.
//
// A [Device] does the same with buffers in the memory of GPUs.
//
// # Settings
//
// RING_TRANSPORT=tcp keeps ranks of one host from sharing memory, shm makes it an
// error when they cannot, auto is the default. RING_STREAMS is the number of TCP
// connections between two ranks, 1 by default; more help where one is limited by the
// network. RING_CHECKSUM=1 checks what they carry for changes on the way, beyond what
// TCP does; gorun --encrypt encrypts it. RING_CONGESTION is the congestion control of these connections. RING_STALL is how long a
// call waits, 30s by default, until gorun names the ranks that have not come to it; 0 is never. All ranks
// need the same settings. RING_SIMD=off, avx2 or avx512 limits the instructions that
// combine elements; the results are the same bits.
//
// # Failure
//
// When a rank dies, every pending and later call of every rank fails with a
// [*PeerError] that names it. A call whose context ends fails with the context's
// error, and takes the job with it: the other ranks cannot finish without it.
// After the first error a Comm is broken for good, and every later call returns
// that same error at once. The contents of a buffer that was to be written are then
// undefined; buffers that are only read stay intact. Wrong arguments are an error
// too, but nothing is sent and the Comm stays as it was.
package ring
