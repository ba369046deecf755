// Package algorithms has the collectives of ranks that reach each other by flows: over the network.
// An algorithm is a sequence of flows; a Carrier moves their bytes. A [Cost] predicts how long each
// algorithm takes, and so picks one.
//
//	allreduce       doubling: the whole vector in log2 N rounds
//	                circulant: reduce-scatter and all-gather on a circulant graph, 2 log2 N rounds
//	                ring: the vector streams around twice without a pause
//	reduce-scatter  circulant, log2 N rounds; ring
//	all-gather      circulant, log2 N rounds; ring
//	broadcast       tree: binomial; circulant: blocks down a binomial tree, then an all-gather, 2 log2 N rounds; ring: a
//	                chain through which the bytes stream
//	reduce          tree, circulant, ring: those of a broadcast backwards
//	all-to-all      circulant: blocks travel in hops of 1, 2, 4 … members, log2 N rounds; ring: to each distance in turn
//	barrier         dissemination, log2 N rounds
//
// A team with an order makes its reductions by another way (ordered.go).
//
// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
// 2005, compare most of these. Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
// clusters of workstations", 2009, has the ring. Träff, "Optimal, non-pipelined reduce-scatter and
// allreduce algorithms", 2024, has the circulant graph, which needs no power of two. Hensgen,
// Finkel and Manber, "Two algorithms for barrier synchronization", 1988, has dissemination. Bruck
// and others, "Efficient algorithms for all-to-all communications in multiport message-passing
// systems", 1997, has the hops of an all-to-all. Culler and others, "LogP: towards a realistic
// model of parallel computation", 1993, has latency, overhead and gap of a message, and Alexandrov
// and others, "LogGP", 1995, the time per byte.
package algorithms
