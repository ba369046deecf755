package dialect

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/usage"
)

// reader translates a word that the table alone cannot. typed is the word, text its value.
type reader = func(t *translator, typed, text string) error

// reader returns the reader of a name in flags.txt, or nil.
func (t *translator) reader(name string) reader {
	return map[string]reader{
		"accelerate-config": (*translator).accelerateConfig,
		"app":               programs(OpenMPI),
		"bind-to":           (*translator).bindTo,
		"by-mpi":            (*translator).byMPI,
		"configfile":        programs(Hydra),
		"cpu-bind":          (*translator).cpuBind,
		"cpus-per-task":     (*translator).cpusPerTask,
		"default-hostfile":  (*translator).defaultHostfile,
		"default-slots":     (*translator).defaultSlots,
		"display":           (*translator).display,
		"dynamo":            (*translator).dynamo,
		"include":           (*translator).include,
		"exclude-hosts":     (*translator).excludeHosts,
		"rank-logs":         (*translator).rankLogs,
		"no-local-rank":     (*translator).withoutLocalRank,
		"flux-time":         (*translator).fluxTime,
		"flux-env":          (*translator).fluxEnv,
		"flux-remove":       (*translator).fluxRemove,
		"flux-output":       fluxOutput("stdout-file", "stderr-file"),
		"flux-error":        fluxOutput("stderr-file"),
		"flux-option":       (*translator).fluxOption,
		"flux-map":          (*translator).fluxMap,
		"distribution":      (*translator).distribution,
		"exclude":           (*translator).exclude,
		"envexcl":           emitEach("unset-env", ","),
		"envlist":           (*translator).envList,
		"fusion":            (*translator).fusionThreshold,
		"gpu-bind":          (*translator).gpuBind,
		"gpus":              (*translator).gpus,
		"gpus-per-node":     (*translator).gpusPerNode,
		"gres":              (*translator).gres,
		"gpus-per-task":     (*translator).gpusPerTask,
		"gtool":             (*translator).gtool,
		"fujitsu-out":       saveRound("stdout-file"),
		"fujitsu-err":       saveRound("stderr-file"),
		"fujitsu-std":       saveRound("stdout-file", "stderr-file"),
		"hydra-errfile":     saveAs(hydraMarks, "stderr-file"),
		"hydra-outfile":     saveAs(hydraMarks, "stdout-file"),
		"hydra-map":         (*translator).hydraMap,
		"hwthreads":         (*translator).hwthreads,
		"line-prefix":       (*translator).linePrefix,
		"map-by":            (*translator).mapBy,
		"mca":               (*translator).mca,
		"mca-env-list":      emitEach("export", ";"),
		"module":            (*translator).pythonModule,
		"mpi-args":          (*translator).mpiArgs,
		"multi-prog":        programs(Slurm),
		"no-python":         (*translator).withoutPython,
		"nodelist":          (*translator).nodeList,
		"nodes":             (*translator).nodeCount,
		"own-export":        (*translator).ownExport,
		"output":            (*translator).output,
		"output-filename":   (*translator).outputDir,
		"pattern":           (*translator).prefixPattern,
		"per-socket":        (*translator).perSocket,
		"port":              (*translator).masterPort,
		"ppr":               (*translator).perUnit,
		"prefix":            (*translator).prefix,
		"rank-by":           (*translator).rankBy,
		"python":            (*translator).pythonOf,
		"redirects":         (*translator).redirects,
		"role":              (*translator).named,
		"rsh-agent":         (*translator).rshAgent,
		"srun-error":        srunOutput("stderr-file"),
		"srun-export":       (*translator).srunExport,
		"srun-input":        (*translator).srunInput,
		"srun-output":       srunOutput("stdout-file", "stderr-file"),
		"srun-time":         (*translator).srunTime,
		"ssh-args":          (*translator).sshArgs,
		"tee":               (*translator).tee,
		"tune":              (*translator).tune,
	}[name]
}

// apply applies the row of a word to its values.
func (t *translator) apply(m meaning, values []string) error {
	value := strings.Join(values, " ")
	i := slices.IndexFunc(m.rows, func(w *word) bool {
		return w.is == nil || slices.Contains(w.is, strings.ReplaceAll(strings.ToLower(value), " ", ""))
	})
	row := m.rows[max(i, 0)]
	switch row.does {
	case means:
		if row.value == "" {
			t.emit(row.to, m.typed)
		} else {
			t.emit(row.to, m.typed, strings.ReplaceAll(row.value, "VALUE", value))
		}
	case pending, asks:
		t.Pending = append(t.Pending, m.typed)
	case replaced:
		t.replaced = append(t.replaced, m.typed+" is not needed: "+row.to)
	case refuse:
		if row.of == Own {
			return usage.Errorf(row.to, "%s: its meaning differs between launchers", m.typed)
		}
		return unsupported(row.to, strings.TrimSpace(m.typed+" "+value))
	case reads:
		return t.reader(row.to)(t, m.typed, value)
	}
	return nil
}

// unsupported returns the error for words that gorun has no equivalent of.
func unsupported(hint, words string) error {
	return usage.Errorf(hint, "%s: gorun does not support it", words)
}

// emitEach returns the reader of a list whose items are values of a flag.
func emitEach(flag, separator string) reader {
	return func(t *translator, typed, text string) error {
		for item := range strings.SplitSeq(text, separator) {
			if item != "" {
				t.emit(flag, typed, item)
			}
		}
		return nil
	}
}

// mca reads NAME VALUE, one setting of Open MPI: of its launcher, or of its library.
func (t *translator) mca(typed, text string) error {
	name, value, _ := strings.Cut(text, " ")
	rows := t.table.settings[name]
	switch {
	case rows != nil:
	case launcherSetting(name) || strings.Contains(typed, "prtemca"):
		t.ignored = append(t.ignored, name+"="+value)
		return nil
	case strings.Contains(typed, "pmixmca"):
		t.emit("export", typed, "PMIX_MCA_"+name+"="+value)
		return nil
	default: // the library's, which reads them from its environment
		t.emit("export", typed, "OMPI_MCA_"+name+"="+value)
		return nil
	}
	return t.apply(meaning{typed: typed + " " + name, rows: rows, args: 1}, []string{value})
}

// mpiArgs reads the mpirun options that horovodrun takes as one word.
func (t *translator) mpiArgs(typed, text string) error {
	list, err := usage.SplitShell(text)
	if err != nil {
		return usage.Errorf("", "%s %q: %w", typed, text, err)
	}
	rest := t.rest
	dialect := t.dialect
	requested := t.requested
	defer func() {
		t.rest = rest
		t.dialect = dialect
		t.requested = requested
	}()
	t.rest = list
	t.dialect = OpenMPI
	t.requested = OpenMPI
	for len(t.rest) > 0 {
		if isPositional(t.rest[0]) || t.rest[0] == "--" {
			return usage.Errorf("it holds options of mpirun only, each with its values", "%s: %q is no option", typed,
				t.rest[0])
		}
		if err := t.next(); err != nil {
			return err
		}
	}
	return nil
}

func (t *translator) nodeList(typed, text string) error {
	flag := "hosts"
	if strings.Contains(text, "/") {
		flag = "hostfile"
	}
	t.emit(flag, typed, text)
	return nil
}

// exclude translates srun's list of nodes that the job must not use.
func (t *translator) exclude(typed, text string) error {
	depth := 0 // open brackets, in which commas separate numbers
	items := strings.FieldsFunc(text, func(c rune) bool {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		}
		return c == ',' && depth <= 0
	})
	for _, item := range items {
		t.emit("hosts", typed, "^"+item)
	}
	return nil
}

func (t *translator) defaultHostfile(typed, text string) error {
	if !t.isVariable(typed) && t.Typed["hosts"] == "" && t.Typed["hostfile"] == "" {
		t.emit("hostfile", typed, text)
	}
	return nil
}

func (t *translator) defaultSlots(typed, _ string) error {
	if !t.isVariable(typed) { // a variable is part of the default hostfile
		t.Pending = append(t.Pending, typed)
	}
	return nil
}

func (t *translator) rshAgent(typed, text string) error {
	t.emit("launch-agent", typed, strings.ReplaceAll(text, ":", " : "))
	return nil
}

// sshArgs translates ssh options that describe a host.
func (t *translator) sshArgs(typed, text string) error {
	t.emit("launch-agent-args", typed, text)
	flags := map[string]string{"p": "ssh-port", "i": "ssh-identity-file", "F": "ssh-config"}
	for args := strings.Fields(text); len(args) > 0; {
		arg := args[0]
		args = args[1:]
		if len(arg) < 2 || arg[0] != '-' {
			return usage.Errorf("it holds options of ssh only", "%s: %q is no option", typed, arg)
		}
		letter := arg[1:2]
		value := arg[2:]
		if strings.Contains("pilFo", letter) && value == "" {
			if len(args) == 0 {
				return usage.Errorf("", "%s: -%s needs a value", typed, letter)
			}
			value = args[0]
			args = args[1:]
		}
		switch {
		case flags[letter] != "":
			t.emit(flags[letter], typed, value)
		case letter == "o":
			t.sshOption(typed, value)
		case !strings.Contains("xqTn", letter): // gorun never requests a display, terminal or input
			t.Pending = append(t.Pending, typed+" "+arg)
		}
	}
	return nil
}

// sshOption translates one -o NAME=value of ssh.
func (t *translator) sshOption(typed, option string) {
	name, value, _ := strings.Cut(option, "=")
	switch strings.ToLower(name) {
	case "port":
		t.emit("ssh-port", typed, value)
	case "identityfile":
		t.emit("ssh-identity-file", typed, value)
	case "stricthostkeychecking":
		if value == "no" || value == "accept-new" || value == "off" {
			t.emit("host-keys", typed, "accept-new")
		}
	case "batchmode", "connectionattempts", "connecttimeout", "loglevel":
		// gorun never prompts, retries by itself, and has --start-timeout.
	default:
		t.Pending = append(t.Pending, typed+" -o "+option)
	}
}

func (t *translator) envList(typed, text string) error {
	t.emit("no-env", typed)
	return emitEach("export", ",")(t, typed, text)
}

// srunExport translates ALL, NONE, and lists of names and NAME=value. Only ALL sends the rest of
// the environment.
func (t *translator) srunExport(typed, list string) error {
	items := strings.Split(list, ",")
	if !slices.Contains(items, "ALL") {
		t.emit("no-env", typed)
	}
	for _, item := range items {
		if !slices.Contains([]string{"ALL", "NONE", "NIL", ""}, item) {
			t.emit("export", typed, item)
		}
	}
	return nil
}

// ownExport translates gorun's --export, which also reads srun's ALL and NONE.
func (t *translator) ownExport(typed, text string) error {
	first, _, _ := strings.Cut(text, ",")
	if first == "ALL" || first == "NONE" {
		return t.srunExport(typed, text)
	}
	t.emit("export", typed, text)
	return nil
}

// srunTime parses minutes, minutes:seconds, hours:minutes:seconds, and days-hours with the same
// suffixes.
func (t *translator) srunTime(typed, text string) error {
	days, clock, dashed := strings.Cut(text, "-")
	if !dashed {
		days = "0"
		clock = text
	}
	fields := strings.Split(clock, ":")
	units := []time.Duration{time.Minute, time.Second}
	if dashed || len(fields) == 3 {
		units = []time.Duration{time.Hour, time.Minute, time.Second}
	}
	n, err := strconv.ParseUint(days, 10, 16)
	total := time.Duration(n) * 24 * time.Hour
	if len(fields) > len(units) {
		err = strconv.ErrSyntax
	}
	for i, f := range fields[:min(len(fields), len(units))] {
		n, fieldErr := strconv.ParseUint(f, 10, 22)
		err = cmp.Or(err, fieldErr)
		total += time.Duration(n) * units[i]
	}
	if err != nil || total < 0 { // an overflow
		return usage.Errorf("for example "+typed+" 90, or 1:30:00",
			"%s %q: expected minutes, minutes:seconds, hours:minutes:seconds or days-hours", typed, text)
	}
	if total > 0 { // 0 means no limit
		t.emit("timeout", typed, total.String())
	}
	return nil
}

// fusionThreshold translates horovodrun's number of megabytes to a variable in bytes.
func (t *translator) fusionThreshold(typed, text string) error {
	megabytes, err := strconv.Atoi(text)
	if err != nil || megabytes < 0 || megabytes > 1<<20 {
		return usage.Errorf("for example "+typed+" 64", "%s %q: expected a whole number of megabytes", typed, text)
	}
	t.emit("export", typed, "HOROVOD_FUSION_THRESHOLD="+strconv.Itoa(megabytes<<20))
	return nil
}

// prefix reads --prefix: a path is Open MPI's directory of installation, which gorun does not need.
func (t *translator) prefix(typed, text string) error {
	if path.IsAbs(text) {
		t.installed = text
		t.installedTyped = typed
	} else {
		t.emit("prefix", typed, text)
	}
	return nil
}

// prefixPattern translates Hydra's prefix pattern.
func (t *translator) prefixPattern(typed, text string) error {
	for i := range len(text) {
		if text[i] == '%' && (i+1 == len(text) || !strings.Contains("rh%", text[i+1:i+2])) &&
			(i == 0 || text[i-1] != '%') {
			return usage.Errorf("use %r for the rank and %h for the host", "%s %q: gorun knows no such part", typed,
				text)
		}
	}
	t.emit("prefix", typed, text)
	return nil
}

// gtool reads Intel MPI's -gtool: TOOL:RANKS, several separated by semicolons.
func (t *translator) gtool(typed, text string) error {
	for part := range strings.SplitSeq(text, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		_, ranks, _ := strings.Cut(part[strings.LastIndexByte(part, ' ')+1:], ":")
		if strings.ContainsAny(ranks, "=@") {
			return usage.Errorf("write the tool and its ranks alone: -gtool 'TOOL:0,8-11'",
				"%s %s: gorun knows no modes and architectures of tools", typed, usage.Clipped(part))
		}
		t.emit("tool", typed, part)
	}
	return nil
}
