package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// translation is a command line in gorun's own words.
type translation struct {
	args    []string          // for the flag parser: flags as --flag or --flag=value, then -- and the program
	typed   map[string]string // a flag of ours → the word it was typed as
	pending []string          // words that are accepted and have no effect yet
	ignored []string          // settings of Open MPI that say nothing to gorun: pml=ob1
	blocks  []block           // the programs, where there are several; args then hold what is the job's
	file    programFile       // that lists the programs; the zero value is none
}

// notice is the one line about what a command line asks for and does not get, or "".
func (t translation) notice() string {
	var parts []string
	if len(t.ignored) > 0 {
		parts = append(parts, "ignored Open MPI settings: "+strings.Join(unique(t.ignored), " "))
	}
	if len(t.pending) > 0 {
		parts = append(parts, "no effect yet: "+strings.Join(unique(t.pending), " "))
	}
	return strings.Join(parts, "; ")
}

// add takes along what another translation could not do.
func (t *translation) add(other translation) {
	t.ignored = append(t.ignored, other.ignored...)
	t.pending = append(t.pending, other.pending...)
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

// translate turns a command line of any launcher into gorun's own. The flags end
// at the program, or at --, and nothing after is ever gorun's, but a colon that stands alone
// after a program: flags of another program follow. A line that begins with one of commands is
// left alone. It is pure.
func translate(argv []string, dialect launchers, flags *pflag.FlagSet, commands []string) (translation, error) {
	if len(argv) > 0 && slices.Contains(commands, argv[0]) {
		return translation{args: argv}, nil
	}
	t, err := translateAs(argv, dialect, flags, false)
	if err != nil {
		// What is wrong may be right in the dialect that a later flag names.
		if later, named := laterDialect(argv); named {
			if other, otherErr := translateAs(argv, later, flags, true); otherErr == nil && other.typed["dialect"] != "" {
				return other, nil
			}
		}
	}
	return t, err
}

// laterDialect is the dialect that the first word names which may be --dialect.
func laterDialect(argv []string) (dialect launchers, named bool) {
	for i, arg := range argv {
		name, given := strings.CutPrefix(arg, "--dialect=")
		if arg == "--dialect" && i+1 < len(argv) {
			name, given = argv[i+1], true
		}
		if given {
			return dialectNamed(name)
		}
	}
	return Own, false
}

// translateAs is translate in a dialect that --dialect has named, or not.
func translateAs(argv []string, dialect launchers, flags *pflag.FlagSet, named bool) (translation, error) {
	var read []*translator // a block each
	for rest, more := argv, true; more; {
		t := newTranslator(dialect, flags)
		t.rest = rest
		if err := t.readFlags(); err != nil {
			return t.translation, err
		}
		switch {
		case t.asked != t.dialect && named:
			return t.translation, usagef("leave one of them out", "--dialect is given twice: %v and %v", t.dialect, t.asked)
		case t.asked != t.dialect: // it stood among the flags: read them again by it
			return translateAs(argv, t.asked, flags, true)
		case t.version:
			return translation{args: []string{"version"}}, nil
		}
		var err error
		if rest, more, err = t.readProgram(len(read) > 0); err != nil {
			return t.translation, err
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
	return nil
}

// translateWords is translate for a command that runs no program: flags may stand
// anywhere.
func translateWords(argv []string, flags *pflag.FlagSet) (translation, error) {
	t := newTranslator(Own, flags)
	t.rest = argv
	for len(t.rest) > 0 {
		if isPositional(t.rest[0]) || t.rest[0] == "--" {
			t.args, t.rest = append(t.args, t.rest[0]), t.rest[1:]
			continue
		}
		if err := t.next(); err != nil {
			return t.translation, err
		}
	}
	return t.translation, nil
}

func isPositional(arg string) bool { return arg == "-" || !strings.HasPrefix(arg, "-") }

// translator reads flags one by one.
type translator struct {
	translation
	flags    *pflag.FlagSet
	dialect  launchers
	asked    launchers // the dialect that --dialect named, or dialect
	version  bool
	noPython bool // torchrun's
	module   bool // torchrun's
	// torchrun's --redirects and --tee
	redirected, teed hidden
	fromEnv          bool // what is read is a variable, not a command line
	table            map[string][]word
	rest             []string
	typedAs          []string // the words of args
	program          []string
}

func newTranslator(dialect launchers, flags *pflag.FlagSet) *translator {
	t := &translator{flags: flags, dialect: dialect, asked: dialect, table: map[string][]word{}}
	t.typed = map[string]string{}
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
			return usagef("write -"+body[:end]+" "+number, "there is no flag %s", arg)
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
			return usagef("write "+m.typed+strings.Repeat(" VALUE", want)+" before the program", "%s needs %s", m.typed, need)
		}
		values, t.rest = append(values, t.rest[0]), t.rest[1:]
	}
	if m.args == pair && want == 2 {
		values = []string{values[0] + "=" + values[1]}
	}
	if m.ours == "" && m.args == 0 && len(values) > 0 {
		return usagef("write "+m.typed+" alone", "%s takes no value", m.typed)
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
		asked, known := dialectNamed(values[0])
		if !known {
			return unknownDialect("--dialect "+values[0], values[0])
		}
		t.asked, t.typed[flag] = asked, typed
		return nil
	case flag == "hosts" && t.typed["hosts"] != "":
		for i, a := range t.args { // lists of hosts add up
			if strings.HasPrefix(a, "--hosts=") {
				t.args[i] = a + "," + values[0]
				return nil
			}
		}
	}
	t.typed[flag] = typed
	arg := "--" + flag
	if len(values) > 0 {
		arg += "=" + values[0]
	}
	t.args, t.typedAs = append(t.args, arg), append(t.typedAs, typed)
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
