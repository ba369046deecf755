// Package spawn keeps what an agent knows of the ranks that MPI programs start while their job
// runs, by MPI_Comm_spawn, and joins them.
//
// The ranks of one call form a world: to MPI they are ranks 0 to n-1 of n. The launcher places them
// and gives them numbers.
package spawn
