package dialect

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/usage"
)

// deepspeedHostfile is the hostfile that deepspeed reads unless --hostfile names another.
const deepspeedHostfile = "/job/hostfile"

// usesDefault reports whether a file that nobody has named by a flag exists. One that another user
// could have made or changed is an error: it says where the program runs, and with which variables.
func usesDefault(file, flag string) (bool, error) {
	err := trust.CheckOptional(file)
	if foreign := new(trust.Error); errors.As(err, &foreign) {
		return false, usage.Errorf("name it, if you trust it: "+flag+" "+file, "read the default file: %w", err)
	}
	return err == nil, nil
}

// emitDefaults translates what deepspeed, accelerate and flux run do without a flag.
func (t *translator) emitDefaults() error {
	counted := cmp.Or(t.Typed["np"], t.Typed["ppn"]) != ""
	placed := cmp.Or(t.Typed["hosts"], t.Typed["hostfile"]) != ""
	switch t.dialect {
	case DeepSpeed:
		if !placed {
			var err error
			if placed, err = usesDefault(deepspeedHostfile, "--hostfile"); err != nil {
				return err
			}
			if placed {
				t.emit("hostfile", "deepspeed", deepspeedHostfile)
			}
		}
		switch {
		case placed && t.first():
			return t.deepspeedEnvironment()
		case !placed && !counted:
			t.emit("ppn", "deepspeed", "1:gpu")
		}
	case Accelerate:
		switch {
		case counted || placed:
		case slices.Contains(t.Args, "--export=ACCELERATE_USE_CPU=True"):
			t.emit("np", "--cpu", "1")
		default:
			t.emit("ppn", "accelerate", "1:gpu-or-one")
		}
		t.emitUnlessGiven("ACCELERATE_MIXED_PRECISION=no", "ACCELERATE_DYNAMO_BACKEND=NO",
			"ACCELERATE_DYNAMO_MODE=default", "ACCELERATE_DYNAMO_USE_FULLGRAPH=False",
			"ACCELERATE_DYNAMO_USE_DYNAMIC=False", "ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION=False")
		if slices.Contains(t.Args, "--export=ACCELERATE_USE_FSDP=true") {
			t.emitUnlessGiven("FSDP_VERSION=1", "FSDP_SHARDING_STRATEGY=FULL_SHARD", "FSDP_RESHARD_AFTER_FORWARD=true",
				"FSDP_OFFLOAD_PARAMS=false", "FSDP_MIN_NUM_PARAMS=100000000", "FSDP_FORWARD_PREFETCH=false",
				"FSDP_USE_ORIG_PARAMS=true", "FSDP_CPU_RAM_EFFICIENT_LOADING=true", "FSDP_SYNC_MODULE_STATES=true",
				"FSDP_ACTIVATION_CHECKPOINTING=false", "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD=false")
		}
	case Flux: // a task per node, or one
		nodes := "1"
		for _, arg := range t.Args {
			if n, is := strings.CutPrefix(arg, "--nodes="); is {
				nodes = n
			}
		}
		if !counted {
			t.emit("np", cmp.Or(t.Typed["nodes"], "flux run"), nodes)
		}
	}
	return nil
}

// emitUnlessGiven exports variables that no flag of the line exports.
func (t *translator) emitUnlessGiven(variables ...string) {
	for _, kv := range variables {
		name, _, _ := strings.Cut(kv, "=")
		given := func(arg string) bool { return strings.HasPrefix(arg, "--export="+name+"=") }
		if !slices.ContainsFunc(t.Args, given) {
			t.emit("export", "accelerate", kv)
		}
	}
}

// include translates deepspeed's HOST[:GPU,GPU...] separated by @. One list of GPUs applies to all
// hosts.
func (t *translator) include(typed, text string) error {
	gpus := ""
	for i, item := range strings.Split(text, "@") {
		host, list, listed := strings.Cut(item, ":")
		if i > 0 && list != gpus {
			return usage.Errorf("name the same GPUs on all hosts, or none",
				"%s %s: the hosts have different GPUs", typed, text)
		}
		gpus = list
		for gpu := range strings.SplitSeq(list, ",") {
			if n, err := strconv.Atoi(gpu); listed && (err != nil || n < 0) {
				return usage.Errorf("for example "+typed+" "+host+":0,2", "%s %s: %q is not the number of a GPU", typed,
					text, gpu)
			}
		}
		if listed {
			host += ":" + strconv.Itoa(strings.Count(list, ",")+1)
		}
		t.emit("hosts", typed, host)
	}
	if gpus != "" {
		t.emit("export", typed, "CUDA_VISIBLE_DEVICES="+gpus)
	}
	return nil
}

// excludeHosts translates deepspeed's hosts that the job must not use, separated by @.
func (t *translator) excludeHosts(typed, text string) error {
	for item := range strings.SplitSeq(text, "@") {
		if strings.Contains(item, ":") {
			return unsupported("name the GPUs to use: --include HOST:0,2", typed+" "+text)
		}
		t.emit("hosts", typed, "^"+item)
	}
	return nil
}

// rankLogs translates deepspeed's folder of a file per rank, which get all output.
func (t *translator) rankLogs(typed, text string) error {
	if text != "None" {
		t.emit("output-filename", typed, text)
		t.emit("hide", typed, "all")
	}
	return nil
}

// masterPort translates the port of the ranks' rendezvous.
func (t *translator) masterPort(typed, text string) error {
	if n, err := strconv.Atoi(text); err != nil || n < 1 || n > 65535 {
		return usage.Errorf("for example "+typed+" 29500", "%s %q: expected a port from 1 to 65535", typed, text)
	}
	t.emit("export", typed, "MASTER_PORT="+text)
	return nil
}

// dynamo translates the name of a compiler, which accelerate's script reads in capitals.
func (t *translator) dynamo(typed, text string) error {
	t.emit("export", typed, "ACCELERATE_DYNAMO_BACKEND="+strings.ToUpper(text))
	return nil
}

// fluxTime translates a number of minutes, or a number with the unit ms, s, m, h or d.
func (t *translator) fluxTime(typed, text string) error {
	number := strings.TrimRight(text, "msdh")
	n, err := strconv.ParseFloat(number, 64)
	units := map[string]time.Duration{"": time.Minute, "ms": time.Millisecond, "s": time.Second, "m": time.Minute,
		"h": time.Hour, "d": 24 * time.Hour}
	unit, known := units[text[len(number):]]
	if err != nil || !known || n < 0 || n*float64(unit) > float64(1<<62) {
		return usage.Errorf("for example "+typed+" 90, or 1.5h",
			"%s %q: expected minutes, or a number with its unit", typed, text)
	}
	if n > 0 { // 0 means no limit
		t.emit("timeout", typed, time.Duration(n*float64(unit)).String())
	}
	return nil
}

// fluxEnv translates a rule: -PATTERN removes variables, ^FILE has others, NAME and NAME=VALUE send
// one.
func (t *translator) fluxEnv(typed, rule string) error {
	name, value, set := strings.Cut(rule, "=")
	switch {
	case strings.HasPrefix(rule, "-"):
		return t.fluxRemove(typed, rule[1:])
	case strings.HasPrefix(rule, "^"):
		t.emit("env-file", typed, rule[1:])
	case set && strings.Contains(value, "$"):
		return unsupported("let the shell put the value in: "+typed+" \""+name+"=...\"", typed+" "+rule)
	default:
		t.emit("export", typed, rule)
	}
	return nil
}

// fluxRemove translates a pattern of variables that ranks do not get.
func (t *translator) fluxRemove(typed, pattern string) error {
	prefix := strings.TrimSuffix(pattern, "*")
	switch {
	case pattern == "*":
		t.emit("no-env", typed)
	case strings.ContainsAny(prefix, "*?[/"):
		return unsupported("write NAME, or PREFIX* for all that begin with PREFIX", typed+" "+pattern)
	default:
		t.emit("unset-env", typed, pattern)
	}
	return nil
}

// fluxOutput returns the reader of a file name with flux's templates.
func fluxOutput(flags ...string) reader {
	return func(t *translator, typed, text string) error {
		marks := strings.NewReplacer("%", "%%", "{{taskid}}", "%r", "{{task.id}}", "%r", "{{task.rank}}", "%r",
			"{{task.index}}", "%l", "{{node.name}}", "%h")
		name := marks.Replace(text)
		switch {
		case text == "none" || text == "kvs":
			return nil
		case strings.Contains(name, "{{"):
			return unsupported("--stdout-file and --stderr-file know %r (rank), %l (rank on its host) and %h (host)",
				typed+" "+text)
		}
		for i, flag := range flags {
			if other := t.Typed[flag]; i == 0 || other == "" || other == typed {
				t.emit(flag, typed, name)
			}
		}
		return nil
	}
}

// fluxOption translates an option of flux's shell.
func (t *translator) fluxOption(typed, text string) error {
	name, value, _ := strings.Cut(text, "=")
	switch {
	case name == "cpu-affinity" && (value == "off" || value == "on" || value == ""):
		t.emit("bind-to", typed, "none") // on means the cores of the whole job
	case name == "gpu-affinity" && value == "off":
		t.emit("gpus-per-rank", typed, "none")
	case slices.Contains([]string{"mpi", "pmi", "exit-on-error", "verbose"}, name):
	case name == "exit-timeout" && value == "none":
		t.emit("keep-going", typed, "all")
	case name == "pty":
		t.emit("panes", typed, "0")
	default:
		t.Pending = append(t.Pending, typed+" "+text)
	}
	return nil
}

// fluxMap translates the order of tasks.
func (t *translator) fluxMap(typed, text string) error {
	switch text {
	case "block":
		t.emit("map-by", typed, "slot")
	case "cyclic", "cyclic:1":
		t.emit("map-by", typed, "node")
	default:
		return unsupported("say block or cyclic, or name each rank's place in a --rankfile", typed+" "+text)
	}
	return nil
}
