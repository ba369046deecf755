// Package contain finds the processes that belong to the ranks of one agent, and ends them.
//
// [Make] uses the first of three rungs that works: a cgroup v2 for the ranks, which the kernel
// kills as one; a freezer cgroup of v1; and the tree of processes below the agent, which is a child
// subreaper. Groups are made only below the group of this process, so that Slurm or a container
// that accounts for the agent accounts for the ranks too. On every rung the process tree is killed
// as well.
//
// Processes are killed through pidfds, after a check that the pid still belongs to the same
// process.
package contain
