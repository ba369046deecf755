// Package bench times ring's collectives and prints the results.
//
// The ranks run [Run] and print a [Row] for each size; whoever started them
// reads the rows and shows them as a [Table] or a plot. Sizes, columns and bandwidths
// mean what they mean in nccl-tests. Size is the whole vector: what a rank brings to or
// gets from an allreduce, broadcast, reduce or sendrecv; in an allgather, reduce-scatter,
// alltoall, gather or scatter the parts of all n ranks together. Algbw is size by time. Busbw is
// algbw times what the collective must move over every link for each byte of the
// vector, so that it can be compared with the speed of a link: 2(n-1)/n for allreduce, 1 for
// broadcast, reduce and sendrecv, (n-1)/n for the others. A barrier moves nothing.
//
// The wire is a plain TCP connection between two of the ranks. It takes turns with the calls, and
// carries as many bytes both ways at once: what sockets can do between these hosts at this time.
//
// Before and after the timing every element of every result is compared with what it
// must be. The values are whole numbers whose sums, averages and products are exact
// in every type.
package bench
