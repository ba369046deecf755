// Package spawn places the ranks that MPI programs start while their job runs, by MPI_Comm_spawn.
//
// The ranks of one call form a world: to MPI they are ranks 0 to n-1 of n. To gorun they have
// numbers from the job's size on, of which each host has its own.
package spawn
