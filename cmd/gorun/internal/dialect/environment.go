package dialect

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Default is a flag that a variable sets if nothing above the variables sets it.
type Default struct {
	Arg      string // --flag or --flag=value
	Variable string
}

// Defaults returns the flags that variables of launchers set, or the error in one of them.
func (t Line) Defaults() ([]Default, error) { return t.defaults, t.faulty }

// reads returns the launchers whose variables count in a dialect. mpirun is also the name of
// MPICH's and Intel MPI's Hydra. Every job of Slurm has variables that srun reads, so only srun's
// own name reads them.
func (d Dialect) reads() Dialect {
	switch d {
	case Own:
		return ^Slurm
	case OpenMPI:
		return OpenMPI | Hydra | mca
	}
	return d | mca
}

func variables(environ []string) map[string]string {
	values := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		values[name] = value
	}
	return values
}

// readVariables translates the variables that launchers read as flags. A flag of the command line
// replaces its variable.
func (t *translator) readVariables() {
	for _, name := range slices.Sorted(maps.Keys(t.environ)) {
		value := t.environ[name]
		rows := t.variable(name)
		switch {
		case rows == nil && t.forLauncher(name):
			t.ignored = append(t.ignored, name+"="+value)
		case rows == nil || slices.ContainsFunc(rows, func(w *word) bool { return t.given[w] }) ||
			t.replacedVariable(name, rows[0]):
		default:
			if err := t.takeVariable(name, value, rows); err != nil && t.faulty == nil {
				t.faulty = fmt.Errorf("in the environment: %w", err)
			}
		}
	}
}

// variable returns the rows of a variable, or nil if it is not read.
func (t *translator) variable(name string) []*word {
	if setting, is := settingOf(name); is {
		return t.table.settings[setting]
	}
	rows := rowsOf(t.table.variables[name], t.dialect.reads())
	if len(rows) > 0 && len(rows[0].names) > 0 {
		return rowsOf(t.table.flags[rows[0].names[0]], rows[0].of)
	}
	return rows
}

// settingOf returns the name of a setting of Open MPI that a variable holds.
func settingOf(variable string) (name string, is bool) {
	for _, prefix := range []string{"OMPI_MCA_", "PRTE_MCA_"} {
		if name, is = strings.CutPrefix(variable, prefix); is {
			return name, true
		}
	}
	return "", false
}

// takeVariable applies a variable. The flag of a word without a value is on or off.
func (t *translator) takeVariable(name, value string, rows []*word) error {
	m := meaning{typed: name, rows: rows, args: rows[0].args}
	switch {
	case m.args == 0 && (isOn(value) || value == "" && rows[0].of == Slurm):
		return t.apply(m, nil)
	case m.args == 0 || value == "":
		return nil
	}
	return t.apply(m, []string{value})
}

// isOn reports whether a variable's value turns a flag on.
func isOn(value string) bool {
	n, err := strconv.Atoi(value)
	return err == nil && n != 0 || slices.Contains([]string{"yes", "y", "true", "t", "on"}, strings.ToLower(value))
}

// replacedVariable reports whether something else than a variable of Slurm counts: another
// variable, or inside a job what package hostfile reads of its ranks and hosts.
func (t *translator) replacedVariable(name string, w *word) bool {
	switch {
	case name == "SLURM_EXPORT_ENV" && t.environ["SRUN_EXPORT_ENV"] != "": // its replacement
		return true
	case w.of != Slurm || t.environ["SLURM_JOB_ID"] == "":
		return false
	case name == "SLURM_CPU_BIND" || name == "SLURM_DISTRIBUTION":
		return t.environ["SLURM_STEP_ID"] != ""
	}
	return w.does == asks || slices.Contains([]string{"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES",
		"SLURM_JOB_NUM_NODES", "SLURM_NTASKS_PER_NODE", "SLURM_NTASKS_PER_SOCKET", "SLURM_NTASKS_PER_GPU",
		"SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GRES"}, name)
}

// forLauncher reports whether an unknown variable is the user's setting of a launcher, not of its
// library. A rank of mpirun has settings of mpirun's own.
func (t *translator) forLauncher(name string) bool {
	if setting, is := settingOf(name); is {
		own := strings.HasPrefix(name, "PRTE_MCA_") || launcherSetting(setting)
		return own && t.environ["OMPI_COMM_WORLD_RANK"] == ""
	}
	prefixes := map[string]Dialect{"PET_": Torch, "HYDRA_": Hydra, "I_MPI_HYDRA_": Hydra, "MPIEXEC_": Hydra}
	for prefix, of := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return t.dialect.reads()&of != 0
		}
	}
	return false
}

// launcherSetting reports whether a setting belongs to Open MPI's launcher, not its library.
func launcherSetting(name string) bool {
	for _, framework := range []string{"plm_", "orte_", "prte_", "rmaps_", "ras_", "odls_", "ess_", "routed_", "iof_",
		"rml_"} {
		if strings.HasPrefix(name, framework) {
			return true
		}
	}
	return false
}
