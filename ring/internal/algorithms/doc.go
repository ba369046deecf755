// Package algorithms has the collectives of ranks that reach each other by flows: over the
// network. An algorithm is a sequence of flows; a Carrier moves their bytes.
//
//	allreduce       small: recursive doubling, the whole vector in log2 N rounds
//	                medium: reduce-scatter and all-gather on a circulant graph, 2 log2 N rounds
//	                large: a ring through which the vector streams without a pause
//	reduce-scatter  small: circulant graph; large: pairwise
//	all-gather      circulant graph, log2 N rounds, every byte received once
//	broadcast       small: binomial tree; large: a chain through which the bytes stream
//	barrier         dissemination, log2 N rounds
//
// Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
// in MPICH", 2005, compare most of these. Patarasuk and Yuan, "Bandwidth optimal
// all-reduce algorithms for clusters of workstations", 2009, has the ring. Träff,
// "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024, has the
// circulant graph, which needs no power of two. Hensgen, Finkel and Manber, "Two
// algorithms for barrier synchronization", 1988, has dissemination.
package algorithms
