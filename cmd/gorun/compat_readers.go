package main

import (
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
)

// apply does what the row of a word says for its values.
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
		t.pending = append(t.pending, m.typed)
	case refuse:
		if row.of == Own {
			return usagef(row.to, "%s: launchers mean different things by it", m.typed)
		}
		return usagef(row.to, "%s: gorun has nothing that does this", strings.TrimSpace(m.typed+" "+value))
	case reads:
		return t.read(row.to, m.typed, values)
	}
	return nil
}

// read turns a word into flags of ours that the table alone cannot.
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
	case "map-by", "bind-to", "cpus-per-task", "cpu-bind":
		return t.readPlacement(reader, typed, text)
	case "envlist":
		return errors.Join(t.emit("no-env", typed, nil), t.emitEach("export", typed, strings.Split(text, ",")))
	case "envexcl":
		return t.emitEach("unset-env", typed, strings.Split(text, ","))
	case "mca-env-list":
		return t.emitEach("export", typed, strings.FieldsFunc(text, func(c rune) bool { return c == ';' }))
	case "srun-export":
		return t.srunExport(typed, text)
	case "srun-time":
		return t.srunTime(typed, text)
	case "fusion":
		megabytes, err := strconv.Atoi(text)
		if err != nil || megabytes < 0 || megabytes > 1<<20 {
			return usagef("for example "+typed+" 64", "%s %q: want a whole number of megabytes", typed, text)
		}
		return t.emit("export", typed, []string{"HOROVOD_FUSION_THRESHOLD=" + strconv.Itoa(megabytes<<20)})
	case "pattern":
		return t.pattern(typed, text)
	case "prefix":
		if path.IsAbs(text) {
			t.pending = append(t.pending, typed)
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
		if t.fromEnv || t.typed["hosts"] != "" || t.typed["hostfile"] != "" {
			return nil
		}
		return t.emit("hostfile", typed, value)
	case "default-slots":
		if t.fromEnv { // it belongs to the default hostfile
			return nil
		}
		t.pending = append(t.pending, typed)
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

// words reads the options of mpirun that stand in one word of horovodrun.
func (t *translator) words(typed, text string) error {
	list, err := splitShell(text)
	if err != nil {
		return usagef("", "%s %q: %w", typed, text, err)
	}
	rest, dialect, asked := t.rest, t.dialect, t.asked
	defer func() { t.rest, t.dialect, t.asked = rest, dialect, asked }()
	t.rest, t.dialect, t.asked = list, OpenMPI, OpenMPI
	for len(t.rest) > 0 {
		if isPositional(t.rest[0]) || t.rest[0] == "--" {
			return usagef("it holds options of mpirun only, each with its values", "%s: %q is no option", typed, t.rest[0])
		}
		if err := t.next(); err != nil {
			return err
		}
	}
	return nil
}

// splitShell splits a line into words as a shell does, without expanding anything.
func splitShell(line string) (words []string, err error) {
	var word strings.Builder
	inWord := false
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(line):
			i++
			word.WriteByte(line[i])
			inWord = true
		case quote != 0:
			word.WriteByte(c)
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case strings.IndexByte(" \t\n", c) >= 0:
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
