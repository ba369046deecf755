package rankenv

import (
	"slices"
	"strings"
)

// SlurmStep marks the environment of processes that gorun starts by srun.
const SlurmStep = "GORUN_SLURM_STEP"

// OfSlurmNode reports Slurm variables that describe one node or one step, which do not hold for
// other ranks.
func OfSlurmNode(name string) bool {
	switch name {
	case "SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN", "SLURM_CPUS_ON_NODE",
		"SLURM_GPUS_ON_NODE",
		"SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "SLURM_LAUNCH_NODE_IPADDR":
		return true
	}
	return ofSlurmStep(name)
}

// ofSlurmStep reports Slurm variables that describe the step of a command.
func ofSlurmStep(name string) bool {
	switch name {
	case "SLURM_TASK_PID", "SLURM_LAUNCH_NODE_IPADDR", "SLURM_PRIO_PROCESS", "SLURM_UMASK", "SLURM_PTY_PORT", SlurmStep:
		return true
	}
	return slices.ContainsFunc([]string{"SLURM_STEP", "SLURM_SRUN_COMM_", "SLURM_CPU_BIND", "SLURM_MEM_BIND"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// OfAgentsStep returns the variables that describe the step of an agent started by srun. Ranks must
// not inherit them.
func OfAgentsStep(environ []string) (names []string) {
	if !slices.Contains(environ, SlurmStep+"=1") {
		return nil
	}
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		counts := strings.HasPrefix(name, "SLURM_NTASKS") ||
			slices.Contains([]string{"SLURM_NPROCS", "SLURM_NNODES", "SLURM_TASKS_PER_NODE",
				"SLURM_DISTRIBUTION"}, name)
		if counts || ofSlurmStep(name) {
			names = append(names, name)
		}
	}
	return names
}
