package dialect

import (
	"cmp"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/usage"
)

// partOfHost returns gorun's word for a part of a host, or "".
func partOfHost(word string) string {
	switch word {
	case "socket", "numa", "core", "hwthread", "l2cache", "l3cache":
		return word
	case "package":
		return "socket"
	case "l2", "l3":
		return word + "cache"
	case "l1", "l1cache": // each core has its own
		return "core"
	}
	return ""
}

const mapHint = "say slot, node, seq, socket, numa, l3cache, core, ppr:N:UNIT, pe-list=CORES or rankfile:file=FILE, " +
	"with :pe=N for N cores a rank"

// mapBy translates a mapping policy of Open MPI: a unit, ppr:N:UNIT, pe-list=CORES or rankfile,
// with qualifiers after colons.
func (t *translator) mapBy(typed, policy string) error {
	parts := strings.Split(policy, ":")
	qualifiers := parts[1:]
	list, listed := strings.CutPrefix(strings.ToLower(parts[0]), "pe-list=")
	switch unit := strings.ToLower(parts[0]); {
	case unit == "ppr" && len(parts) > 2:
		if _, err := strconv.Atoi(parts[1]); err != nil {
			return usage.Errorf("for example "+typed+" ppr:2:"+parts[2], "%s %s: expected a whole number after ppr:",
				typed, policy)
		}
		if err := t.perUnit(typed, parts[1]+":"+parts[2]); err != nil {
			return err
		}
		qualifiers = parts[3:]
	case listed:
		t.emit("cpu-list", typed, list)
	case unit == "rankfile":
		return t.rankfileOf(typed, policy, qualifiers)
	case unit == "node" || unit == "slot":
		t.emit("map-by", typed, unit)
	case unit == "board":
		t.emit("map-by", typed, "slot")
	case unit == "seq":
		t.emit("map-by", typed, unit)
	case partOfHost(unit) != "":
		t.mapByPart(typed, unit, qualifiers)
	case unit != "":
		if n := usage.Nearest(unit, []string{"slot", "node", "socket", "package", "numa", "l3cache", "l2cache", "core",
			"hwthread"}); n != "" {
			return unsupported("did you mean "+n+"?", typed+" "+policy)
		}
		return unsupported(mapHint, typed+" "+policy)
	}
	for _, qualifier := range qualifiers {
		word := strings.ToLower(qualifier)
		file, named := strings.CutPrefix(qualifier, "file=")
		cores, perRank := strings.CutPrefix(word, "pe=")
		switch {
		case slices.Contains([]string{"oversubscribe", "corecpus", "inherit", "noinherit", "span", ""}, word):
		case word == "nooversubscribe":
			t.emit("no-oversubscribe", typed)
		case word == "ordered" && listed:
			t.emit("bind-to", typed, "cpu-list:ordered")
		case perRank:
			t.emit("cpus-per-rank", typed, cores)
		case named && strings.EqualFold(parts[0], "seq"):
			t.emit("hostfile", typed, file)
		case word == "hwtcpus":
			t.countThreads = typed + " " + policy
		default:
			return usage.Errorf(mapHint, "%s %s: gorun has nothing that does %q", typed, policy, qualifier)
		}
	}
	return nil
}

// hwthreads records that hardware threads count as cores. emitThreads translates it after all other
// flags.
func (t *translator) hwthreads(typed, _ string) error { t.countThreads = typed; return nil }

// emitThreads binds ranks to hardware threads if the user gave their number per rank. Otherwise the
// number of ranks may differ from Open MPI's, because gorun counts slots in cores.
func (t *translator) emitThreads() {
	switch {
	case t.countThreads == "":
	case t.Typed["cpus-per-rank"] != "" && t.Typed["bind-to"] == "":
		t.emit("bind-to", t.countThreads, "hwthread")
	case t.Typed["np"] == "" && t.Typed["ppn"] == "" && t.Typed["rankfile"] == "":
		t.Pending = append(t.Pending, t.countThreads)
	}
}

// mapByPart translates mapping to parts of a host. Open MPI 5, whose word is package, numbers the
// ranks of one part before those of the next; Open MPI 4 says socket and numbers them in turn.
func (t *translator) mapByPart(typed, unit string, qualifiers []string) {
	part := partOfHost(unit)
	span := slices.ContainsFunc(qualifiers, func(q string) bool { return strings.EqualFold(q, "span") })
	if span {
		part += ":span"
	}
	t.emit("map-by", typed, part)
	if unit == "package" && t.Typed["rank-by"] == "" {
		t.emit("rank-by", typed, "core")
	}
}

// perUnit translates N:UNIT, a number of ranks per unit.
func (t *translator) perUnit(typed, text string) error {
	n, unit, _ := strings.Cut(strings.ToLower(text), ":")
	switch part := partOfHost(unit); {
	case unit == "node" || unit == "machine":
		t.emit("ppn", typed, n)
	case part != "":
		t.emit("ppn", typed, n+":"+part)
	default:
		return unsupported("say N:node, N:socket, N:numa, N:l3cache or N:core", typed+" "+text)
	}
	return nil
}

// perSocket translates a number of ranks per socket.
func (t *translator) perSocket(typed, n string) error { return t.perUnit(typed, n+":socket") }

// rankfileOf translates rankfile:file=FILE.
func (t *translator) rankfileOf(typed, policy string, qualifiers []string) error {
	name := ""
	for _, q := range qualifiers {
		word, file, _ := strings.Cut(q, "=")
		if strings.EqualFold(word, "file") {
			name = file
		} else if !strings.EqualFold(q, "oversubscribe") {
			return usage.Errorf("for example "+typed+" rankfile:file=ranks.txt",
				"%s %s: gorun has nothing that does %q", typed, policy, q)
		}
	}
	if name == "" {
		return usage.Errorf("for example "+typed+" rankfile:file=ranks.txt", "%s %s names no file", typed, policy)
	}
	t.emit("rankfile", typed, name)
	return nil
}

// rankBy translates a ranking policy of Open MPI: slot, node, fill, or a part of a host.
func (t *translator) rankBy(typed, policy string) error {
	unit, _, _ := strings.Cut(strings.ToLower(policy), ":")
	switch part := partOfHost(unit); {
	case unit == "slot" || unit == "node":
		t.emit("rank-by", typed, unit)
	case unit == "board":
		t.emit("rank-by", typed, "slot")
	case unit == "fill" || part == "hwthread":
		t.emit("rank-by", typed, "core")
	case part != "":
		t.emit("rank-by", typed, part)
	default:
		return unsupported("say slot, node, fill, core, socket or numa", typed+" "+policy)
	}
	return nil
}

// bindTo translates binding policies of Open MPI and Hydra. Hydra may bind to several units
// (core:2), or to the hardware threads of each rank (user:0,1+2), and deals ranks to the units of
// the binding.
func (t *translator) bindTo(typed, policy string) error {
	unit, qualifier, _ := strings.Cut(policy, ":")
	word := strings.ToLower(unit)
	switch word {
	case "machine", "board":
		t.emit("bind-to", typed, "none")
		return nil
	case "rr":
		word = "hwthread"
		unit = "hwthread"
		policy = "hwthread"
	case "user":
		t.emit("rank-cpus", typed, qualifier)
		return nil
	}
	if part := partOfHost(word); part != "" {
		policy = part + strings.TrimPrefix(policy, unit)
		t.hydra.bound = part
	}
	n, err := strconv.Atoi(qualifier)
	switch {
	case err != nil:
		t.emit("bind-to", typed, policy)
	case n != 1 && word != "core" && word != "hwthread":
		return unsupported("a rank is bound to one NUMA node or socket", typed+" "+policy)
	default:
		t.emit("bind-to", typed, partOfHost(word))
		t.emit("cpus-per-rank", typed, qualifier)
	}
	return nil
}

// hydraMap records Hydra's -map-by, the unit to which the next rank is bound. emitHydraMap
// translates it after all other flags.
func (t *translator) hydraMap(typed, policy string) error {
	unit, count, _ := strings.Cut(strings.ToLower(policy), ":")
	part := partOfHost(unit)
	if part == "" && unit != "slot" && unit != "machine" || count != "" && count != "1" && part != "core" &&
		part != "hwthread" {
		return unsupported("say core, hwthread, socket, numa, l2cache or l3cache", typed+" "+policy)
	}
	t.hydra.mapped = part
	t.hydra.typed = typed
	return nil
}

// emitHydraMap deals ranks to units as Hydra does: to the units of -bind-to unless -map-by names
// others.
func (t *translator) emitHydraMap() {
	unit := cmp.Or(t.hydra.mapped, t.hydra.bound)
	if t.dialect != Hydra && t.hydra.typed == "" || t.Typed["bind-to"] == "" || t.Typed["map-by"] != "" ||
		t.hydra.bound == "" || unit == t.hydra.bound && (unit == "core" || unit == "hwthread") {
		return
	}
	t.emit("map-by", cmp.Or(t.hydra.typed, t.Typed["bind-to"]), unit)
}

// cpusPerTask translates srun's flag. Slurm's CPUs may be hardware threads; they count for threads
// of a rank, and only --cpu-bind binds ranks.
func (t *translator) cpusPerTask(typed, cores string) error {
	if t.Typed["rank-cpus"] != "" { // the CPUs of each rank
		return nil
	}
	if t.Typed["bind-to"] == "" {
		t.emit("bind-to", typed, "none")
	}
	t.emit("cpus-per-rank", typed, cores)
	return nil
}

// cpuBind translates srun's flag: verbose and one of none, threads, cores, sockets, ldoms,
// map_cpu:LIST and mask_cpu:LIST.
func (t *translator) cpuBind(typed, list string) error {
	units := map[string]string{"none": "none", "no": "none", "threads": "hwthread", "cores": "core",
		"sockets": "socket", "ldoms": "numa"}
	items := strings.Split(strings.ToLower(list), ",")
	for i, item := range items {
		kind, first, _ := strings.Cut(item, ":")
		switch {
		case kind == "map_cpu" || kind == "mask_cpu":
			return t.rankCPUs(typed, list, kind, append([]string{first}, items[i+1:]...))
		case units[item] != "":
			t.retract("rank-cpus")
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

// rankCPUs translates srun's lists of a hardware thread, or of a mask of them, for each rank of a
// host. N*COUNT repeats one.
func (t *translator) rankCPUs(typed, whole, kind string, items []string) error {
	bad := usage.Errorf("for example "+typed+" map_cpu:0,4, or mask_cpu:0xf,0xf0",
		"%s %s: expected a hardware thread, or a mask, for each rank of a host", typed, whole)
	var ranks []string
	for _, item := range items {
		item, times, repeated := strings.Cut(item, "*")
		count := 1
		if repeated {
			n, err := strconv.ParseUint(times, 10, 16)
			if err != nil || n == 0 {
				return bad
			}
			count = int(n)
		}
		cpus := item
		if kind == "mask_cpu" {
			cpus = maskCPUs(item)
		} else if n, err := strconv.ParseUint(item, 0, 16); err == nil {
			cpus = strconv.FormatUint(n, 10)
		} else {
			return bad
		}
		if cpus == "" || len(ranks)+count > 1<<16 {
			return bad
		}
		ranks = append(ranks, slices.Repeat([]string{cpus}, count)...)
	}
	t.retract("bind-to") // the last one counts
	t.retract("cpus-per-rank")
	t.emit("rank-cpus", typed, strings.Join(ranks, ","))
	return nil
}

// maskCPUs returns the numbers of the bits of a hexadecimal mask, such as 0-3+8, or "" for an
// invalid mask.
func maskCPUs(mask string) string {
	bits, isMask := new(big.Int).SetString(strings.TrimPrefix(mask, "0x"), 16)
	if !isMask || bits.Sign() < 0 || bits.BitLen() > 1<<16 {
		return ""
	}
	var spans []string
	for from := 0; from < bits.BitLen(); from++ {
		if bits.Bit(from) == 0 {
			continue
		}
		to := from
		for bits.Bit(to+1) == 1 {
			to++
		}
		span := strconv.Itoa(from)
		if to > from {
			span += "-" + strconv.Itoa(to)
		}
		spans = append(spans, span)
		from = to
	}
	return strings.Join(spans, "+")
}

// distribution translates srun's order of ranks: of hosts, and after a colon of sockets, where
// ranks are bound.
func (t *translator) distribution(typed, text string) error {
	nodes, _, _ := strings.Cut(strings.ToLower(strings.ReplaceAll(text, " ", "")), ",")
	nodes, _, _ = strings.Cut(nodes, ":")
	size, plane := strings.CutPrefix(nodes, "plane=")
	if planeSize := t.environ["SLURM_DIST_PLANESIZE"]; nodes == "plane" && planeSize != "" {
		size = planeSize
		plane = true
	}
	switch {
	case nodes == "block" || nodes == "*":
		t.emit("map-by", typed, "slot")
	case nodes == "cyclic":
		t.emit("map-by", typed, "node")
	case plane:
		t.emit("ppn", typed, size)
		t.emit("rank-by", typed, "round")
	default:
		return unsupported("say block (fill hosts in order), cyclic (one rank on each in turn) or plane=N (N on each "+
			"in turn)", typed+" "+text)
	}
	return nil
}

// gpusPerTask translates srun's flag: a number, or types of GPUs such as a100:2. --gpu-bind takes
// precedence for visibility in any order of flags.
func (t *translator) gpusPerTask(typed, text string) error {
	if strings.HasPrefix(t.Typed["gpus-per-rank"], "--gpu-bind") {
		return nil
	}
	if text == "none" || text == "auto" { // gorun's own
		t.emit("gpus-per-rank", typed, text)
		return nil
	}
	total, err := countGPUs(typed, text)
	if err == nil {
		t.emit("gpus-per-rank", typed, strconv.Itoa(total))
	}
	return err
}

// countGPUs adds up numbers of GPUs, each perhaps after a type: a100:2,4.
func countGPUs(typed, text string) (total int, err error) {
	for item := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(item[strings.LastIndexByte(item, ':')+1:])
		if err != nil || n < 0 || n > 1<<20 {
			return 0, usage.Errorf("for example "+typed+" 2", "%s %q: expected a whole number", typed, text)
		}
		total += n
	}
	return total, nil
}

// gpus and gpusPerNode read srun's numbers of GPUs of a step. Ranks may use all GPUs that the job
// has, so any other number is an error.
func (t *translator) gpus(typed, text string) error {
	nodes := cmp.Or(t.environ["SLURM_JOB_NUM_NODES"], t.environ["SLURM_NNODES"], "1")
	n, _ := strconv.Atoi(nodes)
	return t.gpusOfJob(typed, text, text, n)
}
func (t *translator) gpusPerNode(typed, text string) error { return t.gpusOfJob(typed, text, text, 1) }

// gpusOfJob compares a number of GPUs with those of a job's nodes.
func (t *translator) gpusOfJob(typed, text, number string, nodes int) error {
	want, err := countGPUs(typed, number)
	each, _ := strconv.Atoi(t.environ["SLURM_GPUS_ON_NODE"])
	switch have := each * nodes; {
	case err != nil:
		return err
	case t.environ["SLURM_JOB_ID"] == "":
		return usage.Errorf("leave it out: ranks may use all GPUs of their host; --gpus-per-task N gives each its own",
			"%s %s: gorun asks no scheduler for GPUs", typed, text)
	case want != have:
		return usage.Errorf("leave it out: ranks may use all GPUs of the job; --gpus-per-task N gives each its own",
			"%s %s: the job has %d", typed, text, have)
	}
	return nil
}

// gres reads srun's generic resources: GPUs, and others, for which gorun asks no scheduler.
func (t *translator) gres(typed, text string) error {
	for item := range strings.SplitSeq(text, ",") {
		name, number, counted := strings.Cut(strings.TrimPrefix(item, "gres/"), ":")
		switch {
		case name == "none":
		case name != "gpu":
			t.Pending = append(t.Pending, typed+" "+item)
		case !counted:
			number = "1"
			fallthrough
		default:
			if err := t.gpusOfJob(typed, item, number, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// gpuBind translates srun's flag: verbose and one of none, single:1, per_task:N and binding by
// number.
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

// nodeRange is torchrun's --nnodes: a number of hosts, or MIN:MAX. The zero value is an absent
// flag.
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
		return usage.Errorf("for example "+typed+" 2, or "+typed+" 2:4", "%s %q: expected N or MIN:MAX hosts", typed,
			text)
	}
	t.nodes = nodeRange{typed, int(least), int(most)}
	return nil
}

// emitNodes translates --nnodes, which depends on other flags: with discovered hosts or restarts
// the job is elastic, and the bounds become numbers of ranks.
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
	var args []*string // the last wins
	for i := range t.defaults {
		args = append(args, &t.defaults[i].Arg)
	}
	for i := range t.Args {
		args = append(args, &t.Args[i])
	}
	for _, arg := range args {
		text, is := strings.CutPrefix(*arg, "--ppn=")
		if !is {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 20)
		if err != nil || n == 0 {
			return 0, usage.Errorf("for example "+t.Typed["ppn"]+" 4", "%s %q: expected a number of ranks",
				t.Typed["ppn"], text)
		}
		each = int(n)
		*arg = "--" + flag + "=" + text
		t.Typed[flag] = t.Typed["ppn"]
	}
	if each == 0 {
		each = 1
		t.emit(flag, t.nodes.typed, "1")
	}
	return each, nil
}
