// Package agent is gorun's side on a host: it starts the host's ranks, carries
// their output and requests to the launcher, and ends them.
//
// It runs as two small processes that watch each other. SSH starts the guard ([Guard]), which
// starts the agent proper ([Serve]). When the agent has ended for any reason, the guard kills every
// process that descends from it. Both are child subreapers, so a process that daemonises, changes
// its session or forks twice stays a descendant. When the guard is killed, the kernel signals the
// agent, which stops the ranks. When both are killed, the kernel kills the ranks
// (PR_SET_PDEATHSIG), and the next guard kills their other descendants. Package contain finds and
// kills processes.
//
// The agent ends the ranks when the launcher asks for it, when its stdin ends, when
// no frame has come for the lease, and when it is signalled.
package agent
