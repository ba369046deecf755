// Package spawn decides which ranks an MPI program may start while its job runs, by MPI_Comm_spawn, and joins them.
//
// The ranks of one call form a world: to MPI they are ranks 0 to n-1 of n. All run on the host of the rank that asked, so no other host is
// told of them, and their fences end here. To the launcher they have numbers from the job's size on, of which each host has its own.
package spawn
