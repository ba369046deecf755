package dialect

import (
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/cli/usage"
)

// mapBy translates a mapping policy: slot, node, ppr:N:node, with qualifiers after colons.
func (t *translator) mapBy(typed, policy string) error {
	const hint = "say slot, node or ppr:N:node, with :pe=N for N cores a rank"
	parts := strings.Split(strings.ToLower(policy), ":")
	qualifiers := parts[1:]
	switch unit := parts[0]; {
	case unit == "ppr" && len(parts) > 2 && parts[2] == "node":
		t.emit("ppn", typed, parts[1])
		qualifiers = parts[3:]
	case unit == "node" || unit == "slot":
		t.emit("map-by", typed, unit)
	case unit == "core" || unit == "hwthread": // both fill the hosts in order
		t.emit("map-by", typed, "slot")
	case unit != "":
		return unsupported(hint, typed+" "+policy)
	}
	for _, qualifier := range qualifiers {
		cores, perRank := strings.CutPrefix(qualifier, "pe=")
		switch {
		case qualifier == "oversubscribe", qualifier == "corecpus", qualifier == "":
		case qualifier == "nooversubscribe":
			t.emit("no-oversubscribe", typed)
		case perRank:
			t.emit("cpus-per-rank", typed, cores)
		case qualifier == "hwtcpus", qualifier == "inherit":
			t.Pending = append(t.Pending, typed+" "+policy)
		default:
			return usage.Errorf(hint, "%s %s: gorun has nothing that does %q", typed, policy, qualifier)
		}
	}
	return nil
}

// bindTo translates binding policies of Open MPI and Hydra. Hydra may bind to several: core:2.
func (t *translator) bindTo(typed, policy string) error {
	unit, qualifier, _ := strings.Cut(policy, ":")
	switch strings.ToLower(unit) {
	case "machine", "board":
		t.emit("bind-to", typed, "none")
		return nil
	case "rr":
		unit, policy = "hwthread", "hwthread"
	case "user", "cpu-list":
		return unsupported("cores cannot be chosen by number: say core, numa or socket", typed+" "+policy)
	}
	n, err := strconv.Atoi(qualifier)
	switch {
	case err != nil:
		t.emit("bind-to", typed, policy)
	case n != 1 && unit != "core" && unit != "hwthread":
		return unsupported("a rank is bound to one NUMA node or socket", typed+" "+policy)
	default:
		t.emit("bind-to", typed, unit)
		t.emit("cpus-per-rank", typed, qualifier)
	}
	return nil
}

// cpusPerTask translates srun's flag. Slurm's CPUs may be hardware threads; they count for threads of a rank, and only
// --cpu-bind binds ranks.
func (t *translator) cpusPerTask(typed, cores string) error {
	if t.Typed["bind-to"] == "" {
		t.emit("bind-to", typed, "none")
	}
	t.emit("cpus-per-rank", typed, cores)
	return nil
}

// cpuBind translates srun's flag: verbose and one of none, threads, cores, sockets and ldoms.
func (t *translator) cpuBind(typed, list string) error {
	units := map[string]string{"none": "none", "no": "none", "threads": "hwthread", "cores": "core", "sockets": "socket", "ldoms": "numa"}
	for item := range strings.SplitSeq(strings.ToLower(list), ",") {
		switch {
		case units[item] != "":
			t.emit("bind-to", typed, units[item])
		case item == "verbose" || item == "v":
			t.emit("report-bindings", typed)
		case item != "quiet" && item != "q":
			t.Pending = append(t.Pending, typed+" "+list)
			return nil
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
	t.emit("gpus-per-rank", typed, strconv.Itoa(total))
	return nil
}

// gpuBind translates srun's flag: verbose and one of none, single:1, per_task:N and binding by number.
func (t *translator) gpuBind(typed, text string) error {
	how := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(text), "verbose,"), "v,")
	n, perTask := strings.CutPrefix(how, "per_task:")
	switch {
	case perTask:
		t.emit("gpus-per-rank", typed, n)
	case how == "none":
		t.emit("gpus-per-rank", typed, "none")
	case how == "single" || how == "single:1":
		t.emit("gpus-per-rank", typed, "1")
	default:
		t.Pending = append(t.Pending, typed+" "+text)
	}
	return nil
}

// nodeRange is torchrun's --nnodes: a number of hosts, or MIN:MAX. The zero value is not given.
type nodeRange struct {
	typed       string
	least, most int
}

// nodeCount parses N or MIN:MAX. emitNodes translates it after all other flags.
func (t *translator) nodeCount(typed, text string) error {
	low, high, ranged := strings.Cut(text, ":")
	if !ranged {
		high = low
	}
	least, err1 := strconv.ParseUint(low, 10, 20)
	most, err2 := strconv.ParseUint(high, 10, 20)
	if err1 != nil || err2 != nil || least == 0 || least > most {
		return usage.Errorf("for example "+typed+" 2, or "+typed+" 2:4", "%s %q: expected N or MIN:MAX hosts", typed, text)
	}
	t.nodes = nodeRange{typed, int(least), int(most)}
	return nil
}

// emitNodes translates --nnodes, which depends on other flags: with discovered hosts or restarts the job is elastic,
// and the bounds become numbers of ranks.
func (t *translator) emitNodes() error {
	n := t.nodes
	if n.typed == "" {
		return nil
	}
	discovered := t.Typed["host-discovery-script"] != ""
	switch elastic := t.Typed["max-restarts"] != "" || discovered; {
	case !elastic && n.least == n.most:
		t.emit("nodes", n.typed, strconv.Itoa(n.least))
		return nil
	case !elastic:
		return usage.Errorf("add --max-restarts 3, or say how many hosts there are: "+n.typed+" "+strconv.Itoa(n.most),
			"%s %d:%d: hosts come and go only where ranks may be started again", n.typed, n.least, n.most)
	}
	each, err := t.ranksPerHost(discovered)
	if err == nil {
		t.emit("min-np", n.typed, strconv.Itoa(n.least*each))
		t.emit("max-np", n.typed, strconv.Itoa(n.most*each))
	}
	return err
}

// ranksPerHost returns --ppn, or torchrun's default of 1. Discovered hosts get as many slots.
func (t *translator) ranksPerHost(discovered bool) (each int, err error) {
	flag := "ppn"
	if discovered {
		flag = "slots-per-host"
	}
	for i, arg := range t.Args {
		text, is := strings.CutPrefix(arg, "--ppn=")
		if !is {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 20)
		if err != nil || n == 0 {
			return 0, usage.Errorf("for example "+t.Typed["ppn"]+" 4", "%s %q: expected a number of ranks", t.Typed["ppn"], text)
		}
		each, t.Args[i], t.Typed[flag] = int(n), "--"+flag+"="+text, t.Typed["ppn"]
	}
	if each == 0 {
		each = 1
		t.emit(flag, t.nodes.typed, "1")
	}
	return each, nil
}
