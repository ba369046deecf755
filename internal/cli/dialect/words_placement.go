package dialect

import (
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/cli/usage"
)

// placementWords returns the flags that place ranks on hosts and cores.
func placementWords() []word {
	const numbers = "choosing cores by number"
	return []word{
		{"map-by", OpenMPI | Own, 1, "", reads, "map-by"},
		{"map-by", Hydra, 1, "slot machine core hwthread", same, "ranks fill cores in order"},
		{"map-by", Hydra, 1, "", refuse, "ranks fill cores in order; leave it out"},
		{"rank-by", OpenMPI, 1, "slot fill", means, "rank-by=slot"},
		{"rank-by", OpenMPI, 1, "node", means, "rank-by=node"},
		{"rank-by", OpenMPI, 1, "", refuse, "ranks are numbered by slot or node"},
		{"byslot", OpenMPI, 0, "", means, "map-by=slot"},
		{"bynode", OpenMPI, 0, "", means, "map-by=node"},
		{"bycore", OpenMPI, 0, "", means, "map-by=slot"},
		{"distribution m", Slurm, 1, "block block:block", means, "map-by=slot"},
		{"distribution m", Slurm, 1, "cyclic cyclic:block", means, "map-by=node"},
		{"distribution m", Slurm, 1, "", refuse, "say block (fill hosts in order) or cyclic (one rank on each in turn)"},
		{"bind-to binding", OpenMPI | Hydra, 1, "", reads, "bind-to"},
		{"cpu-bind", Slurm, 1, "", reads, "cpu-bind"},
		{"bind-to-core", OpenMPI, 0, "", means, "bind-to=core"},
		{"bind-to-socket", OpenMPI, 0, "", means, "bind-to=socket"},
		{"use-hwthread-cpus", OpenMPI, 0, "", pending, "hardware threads as cores; --bind-to hwthread binds to them"},
		{"report-bindings", OpenMPI, 0, "", means, "report-bindings"},
		{"cpus-per-proc cpus-per-rank", OpenMPI, 1, "", means, "cpus-per-rank={}"},
		{"cpus-per-task c", Slurm, 1, "", reads, "cpus-per-task"},
		{"cpu-list cpu-set cartofile cf", OpenMPI, 1, "", pending, numbers},
		{"membind topolib", Hydra, 1, "", pending, "binding memory"},
		{"mem-bind", Slurm, 1, "", pending, "binding memory"},
		{"threads-per-core hint ntasks-per-core ntasks-per-socket", Slurm, 1, "", pending, numbers},
		{"binding-args", Horovod, 1, "", reads, "mpi-args"},
		{"rankfile rf", OpenMPI, 1, "", refuse, "ranks fill hosts in order; order the hostfile instead"},
		{"order-nodes", Hydra, 1, "", refuse, "order the hosts in -H or the hostfile"},
		{"gpus-per-proc g", Hydra, 1, "", means, "gpus-per-rank={}"},
		{"gpus-per-task", Slurm, 1, "", reads, "gpus-per-task"},
		{"gpu-bind", Slurm, 1, "", reads, "gpu-bind"},
		{"ntasks-per-gpu", Slurm, 1, "", refuse, "say how many ranks each host gets, --ntasks-per-node N; they take its GPUs in turns"},
		{"N", Own, 1, "", refuse, "mpirun means ranks per host: --ppn N; srun means hosts: --nodes N; or say --dialect mpirun or srun"},
		{"c", Own, 1, "", refuse, "mpirun means ranks: -np N; srun means cores per rank: --cpus-per-task N; or say --dialect mpirun or srun"},
	}
}

// mcaPlacementWords returns the settings of Open MPI for placement.
func mcaPlacementWords() []word {
	return []word{
		{"rmaps_base_oversubscribe", OpenMPI, 1, "1 true t yes y", same, "more ranks than slots are allowed, with a warning"},
		{"rmaps_base_oversubscribe", OpenMPI, 1, "", means, "no-oversubscribe"},
		{"rmaps_base_no_oversubscribe", OpenMPI, 1, "1 true t yes y", means, "no-oversubscribe"},
		{"rmaps_base_no_oversubscribe", OpenMPI, 1, "", same, "more ranks than slots are allowed, with a warning"},
		{"rmaps_base_mapping_policy rmaps_default_mapping_policy", OpenMPI, 1, "", reads, "map-by"},
		{"rmaps_base_ranking_policy rmaps_default_ranking_policy", OpenMPI, 1, "slot fill", means, "rank-by=slot"},
		{"rmaps_base_ranking_policy rmaps_default_ranking_policy", OpenMPI, 1, "node", means, "rank-by=node"},
		{"rmaps_base_ranking_policy rmaps_default_ranking_policy", OpenMPI, 1, "", refuse, "ranks are numbered by slot or node"},
		{"rmaps_base_cpus_per_proc rmaps_base_cpus_per_rank", OpenMPI, 1, "", means, "cpus-per-rank={}"},
		{"hwloc_base_binding_policy hwloc_default_binding_policy", OpenMPI, 1, "", reads, "bind-to"},
		{"hwloc_base_report_bindings", OpenMPI, 1, "1 true t yes y", means, "report-bindings"},
		{"hwloc_base_report_bindings", OpenMPI, 1, "", same, "nothing is said about bindings"},
	}
}

// readPlacement translates placement flags whose values differ from gorun's.
func (t *translator) readPlacement(reader, typed, text string) error {
	switch reader {
	case "map-by":
		return t.mapBy(typed, text)
	case "bind-to":
		return t.readBinding(typed, text)
	case "cpus-per-task":
		return t.cpusPerTask(typed, text)
	case "gpus-per-task":
		return t.gpusPerTask(typed, text)
	case "gpu-bind":
		return t.gpuBind(typed, text)
	}
	return t.cpuBind(typed, text)
}

// mapBy translates a mapping policy: slot, node, ppr:N:node, with qualifiers after colons.
func (t *translator) mapBy(typed, policy string) error {
	parts := strings.Split(strings.ToLower(policy), ":")
	const hint = "say slot, node or ppr:N:node, with :pe=N for N cores a rank"
	var err error
	switch {
	case parts[0] == "ppr" && len(parts) > 2 && parts[2] == "node":
		err = t.emit("ppn", typed, []string{parts[1]})
		parts = parts[3:]
	case parts[0] == "":
		parts = parts[1:]
	case parts[0] == "node" || parts[0] == "slot":
		err = t.emit("map-by", typed, parts[:1])
		parts = parts[1:]
	case parts[0] == "core" || parts[0] == "hwthread": // both fill the hosts in order
		err = t.emit("map-by", typed, []string{"slot"})
		parts = parts[1:]
	default:
		return usage.Errorf(hint, "%s %s: gorun does not support it", typed, policy)
	}
	for _, qualifier := range parts {
		if err != nil {
			return err
		}
		cores, perRank := strings.CutPrefix(qualifier, "pe=")
		switch {
		case qualifier == "oversubscribe", qualifier == "corecpus", qualifier == "":
		case qualifier == "nooversubscribe":
			err = t.emit("no-oversubscribe", typed, nil)
		case perRank:
			err = t.emit("cpus-per-rank", typed, []string{cores})
		case qualifier == "hwtcpus", qualifier == "inherit":
			t.Pending = append(t.Pending, typed+" "+policy)
		default:
			return usage.Errorf(hint, "%s %s: gorun has nothing that does %q", typed, policy, qualifier)
		}
	}
	return err
}

// readBinding translates binding policies of Open MPI and Hydra. Hydra may bind to several: core:2.
func (t *translator) readBinding(typed, policy string) error {
	unit, qualifier, _ := strings.Cut(policy, ":")
	switch strings.ToLower(unit) {
	case "machine", "board":
		return t.emit("bind-to", typed, []string{"none"})
	case "rr":
		unit, policy = "hwthread", "hwthread"
	case "user", "cpu-list":
		return usage.Errorf("cores cannot be chosen by number: say core, numa or socket", "%s %s: gorun does not support it", typed, policy)
	}
	n, err := strconv.Atoi(qualifier)
	switch {
	case err != nil:
		return t.emit("bind-to", typed, []string{policy})
	case n != 1 && unit != "core" && unit != "hwthread":
		return usage.Errorf("a rank is bound to one NUMA node or socket", "%s %s: gorun does not support it", typed, policy)
	}
	if err := t.emit("bind-to", typed, []string{unit}); err != nil {
		return err
	}
	return t.emit("cpus-per-rank", typed, []string{qualifier})
}

// cpusPerTask translates srun's flag. Slurm's CPUs may be hardware threads; they count for threads of a rank, and only
// --cpu-bind binds ranks.
func (t *translator) cpusPerTask(typed, cores string) error {
	if t.Typed["bind-to"] == "" {
		if err := t.emit("bind-to", typed, []string{"none"}); err != nil {
			return err
		}
	}
	return t.emit("cpus-per-rank", typed, []string{cores})
}

// cpuBind translates srun's flag: verbose and one of none, threads, cores, sockets and ldoms.
func (t *translator) cpuBind(typed, list string) error {
	for item := range strings.SplitSeq(strings.ToLower(list), ",") {
		to := map[string]string{"none": "none", "no": "none", "threads": "hwthread", "cores": "core", "sockets": "socket", "ldoms": "numa"}[item]
		var err error
		switch {
		case to != "":
			err = t.emit("bind-to", typed, []string{to})
		case item == "verbose" || item == "v":
			err = t.emit("report-bindings", typed, nil)
		case item != "quiet" && item != "q":
			t.Pending = append(t.Pending, typed+" "+list)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gpusPerTask translates srun's flag: a number, or types of GPUs such as a100:2. --gpu-bind decides visibility,
// wherever it stands.
func (t *translator) gpusPerTask(typed, text string) error {
	if strings.HasPrefix(t.Typed["gpus-per-rank"], "--gpu-bind") {
		return nil
	}
	total := 0
	for item := range strings.SplitSeq(text, ",") {
		kind, number, typedKind := strings.Cut(item, ":")
		if !typedKind {
			number = kind
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 0 || n > 1<<20 {
			return usage.Errorf("for example "+typed+" 2", "%s %q: expected a whole number", typed, text)
		}
		total += n
	}
	return t.emit("gpus-per-rank", typed, []string{strconv.Itoa(total)})
}

// gpuBind translates srun's flag: verbose and one of none, single:1, per_task:N and binding by number.
func (t *translator) gpuBind(typed, text string) error {
	how := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(text), "verbose,"), "v,")
	if n, ok := strings.CutPrefix(how, "per_task:"); ok {
		return t.emit("gpus-per-rank", typed, []string{n})
	}
	switch how {
	case "none":
		return t.emit("gpus-per-rank", typed, []string{"none"})
	case "single", "single:1":
		return t.emit("gpus-per-rank", typed, []string{"1"})
	}
	t.Pending = append(t.Pending, typed+" "+text)
	return nil
}
