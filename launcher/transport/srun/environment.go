package srun

import (
	"os/exec"
	"os/user"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/usage"
)

// FindSteps returns the transport to the nodes of the surrounding Slurm job. Where it cannot be
// used, the result is nil, with an error if the user asked for it.
func FindSteps(asked bool, lookup func(string) (string, bool), environ []string) (*Steps, error) {
	job, inside, err := FindJob(lookup)
	srun, missing := exec.LookPath("srun")
	switch {
	case err != nil && asked:
		return nil, usage.Errorf("start gorun inside sbatch or salloc, or leave --launcher out", "%w", err)
	case asked && !inside:
		return nil, usage.Errorf("start gorun inside sbatch or salloc, or leave --launcher out", "%w", errNoSrun)
	case asked && missing != nil:
		return nil, usage.Errorf("install Slurm's client programs, or use --launcher ssh", "--launcher srun: %w",
			missing)
	case err != nil || !inside || missing != nil:
		return nil, nil
	}
	return New(job, srun, environ), nil
}

// srunEnv returns the environment of srun: variables of a login, and Slurm's variables that are
// neither options of srun nor a secret, since Slurm gives them to the processes of the step. The
// ranks' variables travel with the job.
func srunEnv(environ []string, home func() string) []string {
	env := []string{rankenv.SlurmStep + "=1"}
	hasHome := false
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		if login(name) || strings.HasPrefix(name, "SLURM_") && !srunOption(name) && name != tokenName {
			env = append(env, kv)
			hasHome = hasHome || name == "HOME"
		}
	}
	if dir := home(); !hasHome && dir != "" {
		env = append(env, "HOME="+dir)
	}
	return trust.Environ(env) // steps start in /
}

// tokenName has a token by which its holder submits jobs of the user. srun needs none: it reaches
// the nodes by the means of the machine only (MUNGE, sackd).
const tokenName = "SLURM_JWT"

func homeDir() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.HomeDir
}

// login reports variables that a command on a node needs from the start.
func login(name string) bool {
	switch name {
	case "HOME", "USER", "LOGNAME", "SHELL", "PATH", "LD_LIBRARY_PATH", "LANG", "TZ", "TMPDIR":
		return true
	}
	return strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "MUNGE")
}

// srunOption reports variables that srun would read as options, or that describe a surrounding
// step.
func srunOption(name string) bool {
	switch name {
	case "SLURM_NPROCS", "SLURM_NNODES", "SLURM_HINT", "SLURM_DISTRIBUTION", "SLURM_DIST_PLANESIZE",
		"SLURM_CPUS_PER_TASK", "SLURM_CPUS_PER_GPU", "SLURM_TRES_PER_TASK", "SLURM_TRES_BIND",
		"SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET", "SLURM_GPU_BIND", "SLURM_STEP_GRES",
		"SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE",
		"SLURM_EXACT", "SLURM_EXCLUSIVE", "SLURM_OVERLAP", "SLURM_WHOLE", "SLURM_OVERCOMMIT",
		"SLURM_THREADS_PER_CORE", "SLURM_CORES_PER_SOCKET", "SLURM_NCORES_PER_SOCKET",
		"SLURM_SOCKETS_PER_NODE", "SLURM_NSOCKETS_PER_NODE", "SLURM_CORE_SPEC", "SLURM_THREAD_SPEC", "SLURM_THREADS",
		"SLURM_HOSTFILE", "SLURM_ARBITRARY_NODELIST", "SLURM_RELATIVE", "SLURM_SRUN_MULTI",
		"SLURM_LABELIO", "SLURM_UNBUFFEREDIO", "SLURM_STDINMODE", "SLURM_STDOUTMODE", "SLURM_STDERRMODE",
		"SLURM_OPEN_MODE", "SLURM_PTY",
		"SLURM_EXPORT_ENV", "SLURM_REMOTE_CWD", "SLURM_WORKING_DIR", "SLURM_CONTAINER", "SLURM_CONTAINER_ID",
		"SLURM_MPI_TYPE", "SLURM_RESV_PORTS", "SLURM_KILL_BAD_EXIT", "SLURM_WAIT", "SLURM_TIMELIMIT", "SLURM_SIGNAL",
		"SLURM_IMMEDIATE",
		"SLURM_BCAST", "SLURM_BCAST_EXCLUDE", "SLURM_COMPRESS", "SLURM_SEND_LIBS", "SLURM_TEST_EXEC",
		"SLURM_PREPEND_ENV",
		"SLURM_DEBUG", "SLURM_QUIET", "SLURM_DISABLE_STATUS", "SLURM_CONSTRAINT", "SLURM_USE_MIN_NODES",
		"SLURM_SPREAD_JOB",
		"SLURM_JOB_NAME", "SLURM_TASK_PID":
		return true
	}
	return slices.ContainsFunc([]string{"SLURM_NTASKS", "SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_STEP",
		"SLURM_SRUN_COMM_"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
