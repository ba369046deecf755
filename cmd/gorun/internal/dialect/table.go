package dialect

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed flags.txt
var flagsText string

// action is how gorun translates a word.
type action uint8

const (
	means    action = iota // a flag of gorun
	reads                  // a reader translates it
	same                   // gorun does so by default
	pending                // accepted without effect
	asks                   // a request to a scheduler, which gorun does not make
	replaced               // accepted, gorun works differently
	refuse                 // rejected: the job would behave differently
)

// Numbers of values that are not fixed.
const (
	attached = -1 // an optional value after =
	pair     = -2 // NAME=value, or NAME and value as two words
)

// mca stands for Open MPI's settings (-mca NAME VALUE, OMPI_MCA_NAME and PRTE_MCA_NAME) in the
// table.
const mca Dialect = 1 << 15

// word is a row of flags.txt.
type word struct {
	of          Dialect
	left, right string // the row for help and documentation

	names []string // without dashes, the usual one first
	vars  []string // variables that mean the same
	args  int      // values that follow, or attached or pair
	is    []string // the values of this row; nil: all others
	does  action
	to    string // a flag of gorun, a reader's name, a reason or a hint
	value string // the value of gorun's flag, with VALUE for the user's; "": none
}

// table is the content of flags.txt.
type table struct {
	rows      []*word
	flags     map[string][]*word // key: name
	settings  map[string][]*word // settings of Open MPI; key: name
	variables map[string][]*word // key: name
}

func readTable() table {
	t := table{flags: map[string][]*word{}, settings: map[string][]*word{}, variables: map[string][]*word{}}
	var of Dialect
	for line := range strings.Lines(flagsText) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		left, right, isRow := strings.Cut(line, "  ")
		if !isRow {
			of = mca
			if launcher, known := Named(strings.TrimSuffix(line, ":")); known {
				of = launcher
			}
			continue
		}
		w := &word{of: of, left: left, right: strings.TrimSpace(right)}
		w.readFlag()
		w.readMeaning()
		t.rows = append(t.rows, w)
		byName := t.flags
		if of == mca {
			byName = t.settings
		}
		for _, name := range w.names {
			byName[name] = append(byName[name], w)
		}
		for _, name := range w.vars {
			t.variables[name] = append(t.variables[name], w)
		}
	}
	return t
}

// readFlag reads the names and values of a row.
func (w *word) readFlag() {
	fields := strings.Fields(w.left)
	last := slices.IndexFunc(fields, func(f string) bool { return !strings.HasSuffix(f, ",") })
	for _, name := range fields[:last] {
		w.addName(strings.TrimSuffix(name, ","))
	}
	name, value, valued := strings.Cut(fields[last], "=")
	name, optional := strings.CutSuffix(name, "[")
	w.addName(name)
	switch values := fields[last+1:]; {
	case optional:
		w.args = attached
	case valued:
		w.args = attached
		w.is = []string{value}
	case slices.Equal(values, []string{"NAME=VALUE"}):
		w.args = pair
	default:
		w.args = len(values)
		if len(values) > 0 && values[0] != "VALUE" {
			w.is = strings.Split(values[0], "|")
		}
	}
}

func (w *word) addName(name string) {
	if variable, is := strings.CutPrefix(name, "$"); is {
		w.vars = append(w.vars, variable)
	} else {
		w.names = append(w.names, strings.TrimLeft(name, "-"))
	}
}

// readMeaning reads what a row means to gorun. It removes the reader's name from the text for
// users.
func (w *word) readMeaning() {
	if flag, isFlag := strings.CutPrefix(w.right, "--"); isFlag {
		w.does = means
		w.to, w.value, _ = strings.Cut(flag, " ")
		w.value = strings.Trim(w.value, "'")
		return
	}
	if reader, text, isReader := strings.Cut(strings.TrimPrefix(w.right, "["), "] "); isReader {
		w.does = reads
		w.to = reader
		w.right = text
		return
	}
	kind, text, _ := strings.Cut(w.right, ": ")
	w.to = text
	switch kind {
	case "nothing to do":
		w.does = same
	case "no effect yet":
		w.does = pending
	case "for the scheduler":
		w.does = asks
	case "not needed":
		w.does = replaced
	default:
		w.does = refuse
	}
}

// Row is a row of the table for help and documentation.
type Row struct {
	Flags     string // the spellings of a flag and its values, or of a variable that is no flag
	Variables string // the variables that mean the same as the flag
	Means     string
}

// Rows returns the flags of a launcher and their translation.
func Rows(launcher Dialect) (rows []Row) {
	for _, w := range rowsOf(readTable().rows, launcher) {
		row := Row{Flags: w.left, Means: w.right}
		if len(w.names) > 0 && len(w.vars) > 0 {
			row.Variables = "$" + strings.Join(w.vars, ", $")
			for _, v := range w.vars {
				row.Flags = strings.ReplaceAll(strings.ReplaceAll(row.Flags, "$"+v+", ", ""), ", $"+v, "")
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// SettingRows returns the settings of Open MPI and their translation.
func SettingRows() []Row { return Rows(mca) }

// rowsOf returns the rows of any of the launchers.
func rowsOf(rows []*word, of Dialect) (out []*word) {
	for _, w := range rows {
		if w.of&of != 0 {
			out = append(out, w)
		}
	}
	return out
}
