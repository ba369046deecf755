// Package agent is gorun's side on a host: it starts the host's ranks, carries
// their output and requests to the launcher, and ends them.
//
// It runs as two small processes that watch each other. The guard ([Guard]) is
// what SSH starts; it starts the agent proper ([Serve]) and outlives it only to
// sweep: when the agent is gone, by whatever end, the guard kills every process
// that descends from it. Both are child subreapers, so a process that
// daemonises, changes its session or forks twice stays a descendant. When the
// guard is killed the agent is signalled by the kernel and stops the ranks
// itself; when both are killed at once, the kernel kills the ranks
// (PR_SET_PDEATHSIG), and the next guard ends what else they have left. Package contain has the ways.
//
// The agent ends the ranks when the launcher says so, when its stdin ends, when
// nothing was heard from the launcher for the lease, and when it is signalled.
package agent
