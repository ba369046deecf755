// Package contain knows which processes belong to the ranks of one agent, and ends them.
//
// There is a ladder of ways, and the first that works is used ([Make]): a cgroup v2 of the ranks' own, which
// the kernel kills as one; a freezer cgroup of v1; and the tree of processes below the agent, which is a child subreaper.
// Groups are made below the one that this process is in, never elsewhere: whoever accounts for us, Slurm or a
// container, accounts for the ranks too. On each rung the tree is killed as well.
//
// Processes are killed through pidfds, after a look that the pid still is who it was.
package contain
