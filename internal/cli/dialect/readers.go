package dialect

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/cli/usage"
)

// apply applies the row of a word to its values.
func (t *translator) apply(m meaning, values []string) error {
	value := strings.Join(values, " ")
	i := slices.IndexFunc(m.rows, func(w word) bool {
		return w.is == "" || slices.Contains(strings.Fields(w.is), strings.ReplaceAll(strings.ToLower(value), " ", ""))
	})
	row := m.rows[max(i, 0)]
	switch row.does {
	case means:
		flag, template, valued := strings.Cut(row.to, "=")
		if !valued {
			return t.emit(flag, m.typed, nil)
		}
		return t.emit(flag, m.typed, []string{strings.ReplaceAll(template, "{}", value)})
	case pending:
		t.Pending = append(t.Pending, m.typed)
	case instead:
		t.instead = append(t.instead, m.typed+" is not needed: "+row.to)
	case refuse:
		if row.of == Own {
			return usage.Errorf(row.to, "%s: its meaning differs between launchers", m.typed)
		}
		return usage.Errorf(row.to, "%s: gorun does not support it", strings.TrimSpace(m.typed+" "+value))
	case reads:
		return t.read(row.to, m.typed, values)
	}
	return nil
}

// read translates a word that needs more than the table.
func (t *translator) read(reader, typed string, values []string) error {
	value := values[max(len(values)-1, 0):]
	text := strings.Join(value, "")
	switch reader {
	case "mca":
		return t.mca(values[0], values[1], typed+" "+values[0])
	case "mpi-args":
		return t.words(typed, text)
	case "ssh-args":
		return errors.Join(t.emit("launch-agent-args", typed, value), t.sshArgs(typed, strings.Fields(text)))
	case "rsh-agent":
		return t.emit("launch-agent", typed, []string{strings.Join(strings.Split(text, ":"), " : ")})
	case "map-by", "bind-to", "cpus-per-task", "cpu-bind", "gpus-per-task", "gpu-bind":
		return t.readPlacement(reader, typed, text)
	case "envlist":
		return errors.Join(t.emit("no-env", typed, nil), t.emitEach("export", typed, strings.Split(text, ",")))
	case "envexcl":
		return t.emitEach("unset-env", typed, strings.Split(text, ","))
	case "mca-env-list":
		return t.emitEach("export", typed, strings.FieldsFunc(text, func(c rune) bool { return c == ';' }))
	case "nodes":
		return t.readNodes(typed, text)
	case "srun-export":
		return t.srunExport(typed, text)
	case "srun-time":
		return t.srunTime(typed, text)
	case "fusion":
		megabytes, err := strconv.Atoi(text)
		if err != nil || megabytes < 0 || megabytes > 1<<20 {
			return usage.Errorf("for example "+typed+" 64", "%s %q: expected a whole number of megabytes", typed, text)
		}
		return t.emit("export", typed, []string{"HOROVOD_FUSION_THRESHOLD=" + strconv.Itoa(megabytes<<20)})
	case "pattern":
		return t.pattern(typed, text)
	case "prefix":
		if path.IsAbs(text) {
			t.Pending = append(t.Pending, typed)
			return nil
		}
		return t.emit("prefix", typed, value)
	case "nodelist":
		if strings.Contains(text, "/") {
			return t.emit("hostfile", typed, value)
		}
		return t.emit("hosts", typed, value)
	case "output", "display":
		return t.qualified(reader, typed, text)
	case "default-hostfile":
		if t.fromEnv || t.Typed["hosts"] != "" || t.Typed["hostfile"] != "" {
			return nil
		}
		return t.emit("hostfile", typed, value)
	case "default-slots":
		if t.fromEnv { // part of the default hostfile
			return nil
		}
		t.Pending = append(t.Pending, typed)
	case "app", "configfile", "multi-prog", "module", "no-python":
		t.readOfProgram(reader, typed, text)
	default:
		return t.readStreams(reader, typed, text)
	}
	return nil
}

func (t *translator) emitEach(flag, typed string, values []string) error {
	for _, v := range values {
		if v == "" {
			continue
		}
		if err := t.emit(flag, typed, []string{v}); err != nil {
			return err
		}
	}
	return nil
}

// mca reads one setting of Open MPI.
func (t *translator) mca(name, value, typed string) error {
	var rows []word
	for _, w := range mcaWords() {
		if slices.Contains(strings.Fields(w.names), name) {
			rows = append(rows, w)
		}
	}
	if len(rows) == 0 {
		t.ignored = append(t.ignored, name+"="+value)
		return nil
	}
	return t.apply(meaning{typed: typed, rows: rows, args: 1}, []string{value})
}

// words reads the mpirun options that horovodrun takes as one word.
func (t *translator) words(typed, text string) error {
	list, err := usage.SplitShell(text)
	if err != nil {
		return usage.Errorf("", "%s %q: %w", typed, text, err)
	}
	rest, dialect, asked := t.rest, t.dialect, t.asked
	defer func() { t.rest, t.dialect, t.asked = rest, dialect, asked }()
	t.rest, t.dialect, t.asked = list, OpenMPI, OpenMPI
	for len(t.rest) > 0 {
		if isPositional(t.rest[0]) || t.rest[0] == "--" {
			return usage.Errorf("it holds options of mpirun only, each with its values", "%s: %q is no option", typed, t.rest[0])
		}
		if err := t.next(); err != nil {
			return err
		}
	}
	return nil
}
