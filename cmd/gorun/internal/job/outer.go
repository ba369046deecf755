package job

import (
	"cmp"
	"strconv"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/usage"
)

// CheckOuter returns an error if another launcher has started this process as one of several ranks:
// each of them would run the whole job. A rank of gorun may start jobs of its own.
func CheckOuter(lookup func(string) (string, bool)) error {
	get := func(name string) string {
		value, _ := lookup(name)
		return value
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(get(name))
		return n
	}
	several := func(launcher string, times int, hint string) error {
		return usage.Errorf(hint, "%s has started gorun %d times, and each would run the whole job", launcher, times)
	}
	// With --pty the first task alone has the user's shell.
	if hostfile.IsStep(get("SLURM_STEP_ID")) && get("SLURM_PTY_PORT") == "" {
		tasks := cmp.Or(number("SLURM_STEP_NUM_TASKS"), number("SLURM_NTASKS"))
		if tasks > 1 {
			return several("srun", tasks, "leave srun out: in a job of Slurm gorun starts the ranks on all nodes; or "+
				"write srun -N1 -n1")
		}
	}
	for _, outer := range []struct{ launcher, size, mark, one string }{
		{"mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "mpirun -np 1"},
		{"mpiexec.hydra", "PMI_SIZE", "PMI_RANK", "mpiexec.hydra -n 1"},
		{"torchrun", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "torchrun --nproc-per-node 1"},
		{"horovodrun", "HOROVOD_SIZE", "HOROVOD_RANK", "horovodrun -np 1"},
	} {
		size := number(outer.size)
		if size > 1 && get(outer.mark) != "" && get("GORUN_SIZE") != get(outer.size) {
			return several(outer.launcher, size, "type gorun in place of "+outer.launcher+": its flags mean the same "+
				"to gorun --dialect "+outer.launcher+"; or write "+outer.one)
		}
	}
	return nil
}
