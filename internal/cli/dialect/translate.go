package dialect

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/cli/usage"
)

// Line is a command line in gorun's own words.
type Line struct {
	Args    []string          // for the flag parser: flags as --flag or --flag=value, then -- and the program
	Typed   map[string]string // a flag of ours → the word it was typed as
	Pending []string          // words that are accepted and have no effect yet
	Blocks  []Block           // the programs, where there are several; Args then hold what is the job's
	instead []string          // sentences about words that gorun does otherwise
	ignored []string          // settings of Open MPI that say nothing to gorun: pml=ob1
	file    programFile       // that lists the programs; the zero value is none
}

// Notice is the one line about what a command line asks for and does not get, or "".
func (t Line) Notice() string {
	var parts []string
	if len(t.ignored) > 0 {
		parts = append(parts, "ignored Open MPI settings: "+strings.Join(unique(t.ignored), " "))
	}
	if len(t.Pending) > 0 {
		parts = append(parts, "no effect yet: "+strings.Join(unique(t.Pending), " "))
	}
	return strings.Join(append(parts, unique(t.instead)...), "; ")
}

// Add takes along what another line could not do.
func (t *Line) Add(other Line) {
	t.ignored = append(t.ignored, other.ignored...)
	t.Pending = append(t.Pending, other.Pending...)
	t.instead = append(t.instead, other.instead...)
}

// unique is words without repetitions, in order.
func unique(words []string) (out []string) {
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// Translate turns a command line of any launcher into gorun's own. The flags end
// at the program, or at --, and nothing after is ever gorun's, but a colon that stands alone
// after a program: flags of another program follow. flags are gorun's. A line that begins with one of
// commands is left alone. A file of programs that the line names is not read: see Line.WithFile. Errors
// are the user's mistakes, *usage.Error. It is pure.
func Translate(argv []string, dialect Dialect, flags *pflag.FlagSet, commands []string) (Line, error) {
	if len(argv) > 0 && slices.Contains(commands, argv[0]) {
		return Line{Args: argv}, nil
	}
	t, err := translateAs(argv, dialect, flags, false)
	if err != nil {
		// What is wrong may be right in the dialect that a later flag names.
		if later, named := laterDialect(argv); named {
			if other, otherErr := translateAs(argv, later, flags, true); otherErr == nil && other.Typed["dialect"] != "" {
				return other, nil
			}
		}
	}
	return t, err
}

// laterDialect is the dialect that the first word names which may be --dialect.
func laterDialect(argv []string) (dialect Dialect, named bool) {
	for i, arg := range argv {
		name, given := strings.CutPrefix(arg, "--dialect=")
		if arg == "--dialect" && i+1 < len(argv) {
			name, given = argv[i+1], true
		}
		if given {
			return Named(name)
		}
	}
	return Own, false
}

// translateAs is Translate in a dialect that --dialect has named, or not.
func translateAs(argv []string, dialect Dialect, flags *pflag.FlagSet, named bool) (Line, error) {
	var read []*translator // a block each
	for rest, more := argv, true; more; {
		t := newTranslator(dialect, flags)
		t.rest = rest
		if err := t.readFlags(); err != nil {
			return t.Line, err
		}
		switch {
		case t.asked != t.dialect && named:
			return t.Line, usage.Errorf("leave one of them out", "--dialect is given twice: %v and %v", t.dialect, t.asked)
		case t.asked != t.dialect: // it stood among the flags: read them again by it
			return translateAs(argv, t.asked, flags, true)
		case t.version:
			return Line{Args: []string{"version"}}, nil
		}
		var err error
		if rest, more, err = t.readProgram(len(read) > 0); err != nil {
			return t.Line, err
		}
		read = append(read, t)
	}
	return joinBlocks(read, flags)
}

// readFlags reads the flags before a program. It stops early where one of them decides how
// all are read, or that none is.
func (t *translator) readFlags() error {
	for len(t.rest) > 0 && !isPositional(t.rest[0]) && t.rest[0] != "--" && t.asked == t.dialect && !t.version {
		if err := t.next(); err != nil {
			return err
		}
	}
	return t.emitNodes()
}

// TranslateWords is Translate for a command that runs no program: flags may stand
// anywhere.
func TranslateWords(argv []string, flags *pflag.FlagSet) (Line, error) {
	t := newTranslator(Own, flags)
	t.rest = argv
	for len(t.rest) > 0 {
		if isPositional(t.rest[0]) || t.rest[0] == "--" {
			t.Args, t.rest = append(t.Args, t.rest[0]), t.rest[1:]
			continue
		}
		if err := t.next(); err != nil {
			return t.Line, err
		}
	}
	return t.Line, t.emitNodes()
}

func isPositional(arg string) bool { return arg == "-" || !strings.HasPrefix(arg, "-") }

// TranslateFlag is a single flag of a launcher's, without dashes, with as many values as Takes says: from a
// place other than a command line. typed is how the user wrote it.
func TranslateFlag(dialect Dialect, name, typed string, values []string, flags *pflag.FlagSet) (Line, error) {
	t := newTranslator(dialect, flags)
	m, err := t.meaning(name, typed)
	if err == nil {
		err = t.take(m, values)
	}
	if err == nil {
		err = t.emitNodes()
	}
	return t.Line, err
}

// translator reads flags one by one.
type translator struct {
	Line
	flags    *pflag.FlagSet
	dialect  Dialect
	asked    Dialect // the dialect that --dialect named, or dialect
	version  bool
	noPython bool // torchrun's
	module   bool // torchrun's
	nodes    nodeRange
	// torchrun's --redirects and --tee
	redirected, teed streams
	fromEnv          bool // what is read is a variable, not a command line
	table            map[string][]word
	rest             []string
	typedAs          []string // the words of args
	program          []string
}

func newTranslator(dialect Dialect, flags *pflag.FlagSet) *translator {
	t := &translator{flags: flags, dialect: dialect, asked: dialect, table: map[string][]word{}}
	t.Typed = map[string]string{}
	for _, w := range words() {
		for name := range strings.FieldsSeq(w.names) {
			t.table[name] = append(t.table[name], w)
		}
	}
	return t
}

// next reads the flag that rest begins with, and its values.
func (t *translator) next() error {
	arg := t.rest[0]
	t.rest = t.rest[1:]
	body, long := strings.CutPrefix(arg, "--")
	if !long {
		body = arg[1:]
	}
	name, value, given := strings.Cut(body, "=")
	switch {
	case long:
		name = normalizeDashes(name)
		if !t.known(name) {
			name = t.unabbreviated(name)
		}
		if !t.known(name) {
			return t.unknown(arg)
		}
	case len(name) < 2 || !t.known(name):
		return t.cluster(arg)
	}
	m, err := t.meaning(name, typedWord(arg))
	if err != nil {
		return err
	}
	var values []string
	if given {
		values = []string{value}
	}
	return t.take(m, values)
}

// typedWord is a flag as it was typed, without a value after =.
func typedWord(arg string) string {
	word, _, _ := strings.Cut(arg, "=")
	return word
}

// cluster reads single letters that share a dash: -vH a, -n4, -Ha:2.
func (t *translator) cluster(arg string) error {
	body := arg[1:]
	for end := len(body) - 1; end >= 2; end-- {
		if number := body[end:]; strings.Trim(number, "0123456789") == "" && t.known(body[:end]) {
			return usage.Errorf("write -"+body[:end]+" "+number, "there is no flag %s", arg)
		}
	}
	for i := 0; i < len(body); i++ {
		letter, after := body[i:i+1], body[i+1:]
		if !t.known(letter) {
			return t.unknown(arg)
		}
		m, err := t.meaning(letter, "-"+letter)
		if err != nil {
			return err
		}
		var values []string
		if value, given := strings.CutPrefix(after, "="); given {
			values, after = []string{value}, ""
		} else if after != "" && m.args != 0 {
			values, after = []string{after}, ""
		}
		if err := t.take(m, values); err != nil || after == "" {
			return err
		}
	}
	return nil
}

// take reads the values of a word that are not there yet, and does what it says.
func (t *translator) take(m meaning, values []string) error {
	want := m.args
	switch {
	case want == pair && len(values) == 0 && len(t.rest) > 0 && strings.Contains(t.rest[0], "="):
		want = 1
	case want == pair && len(values) > 0 && strings.Contains(values[0], "="):
		want = 1
	case want == pair:
		want = 2
	}
	for len(values) < want {
		if len(t.rest) == 0 {
			need := "a value"
			if want > 1 {
				need = strconv.Itoa(want) + " values"
			}
			return usage.Errorf("write "+m.typed+strings.Repeat(" VALUE", want)+" before the program", "%s needs %s", m.typed, need)
		}
		values, t.rest = append(values, t.rest[0]), t.rest[1:]
	}
	if m.args == pair && want == 2 {
		values = []string{values[0] + "=" + values[1]}
	}
	if m.ours == "" && m.args == 0 && len(values) > 0 {
		return usage.Errorf("write "+m.typed+" alone", "%s takes no value", m.typed)
	}
	if m.ours != "" {
		return t.emit(m.ours, m.typed, values)
	}
	return t.apply(m, values)
}

// emit adds a flag of ours.
func (t *translator) emit(flag, typed string, values []string) error {
	switch {
	case flag == "version":
		t.version = true
		return nil
	case flag == "dialect":
		asked, known := Named(values[0])
		if !known {
			return Unknown("--dialect "+values[0], values[0])
		}
		t.asked, t.Typed[flag] = asked, typed
		return nil
	case flag == "hosts" && t.Typed["hosts"] != "":
		for i, a := range t.Args { // lists of hosts add up
			if strings.HasPrefix(a, "--hosts=") {
				t.Args[i] = a + "," + values[0]
				return nil
			}
		}
	}
	t.Typed[flag] = typed
	arg := "--" + flag
	if len(values) > 0 {
		arg += "=" + values[0]
	}
	t.Args, t.typedAs = append(t.Args, arg), append(t.typedAs, typed)
	return nil
}

// asProgram is how a dialect runs its program: torchrun gives scripts to Python.
func (t *translator) asProgram(program []string) []string {
	switch {
	case t.module:
		return slices.Concat([]string{"python", "-u", "-m"}, program)
	case t.dialect == Torch && !t.noPython:
		return slices.Concat([]string{"python", "-u"}, program)
	}
	return program
}
