package dialect

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
)

// Line is a command line in gorun's own flags.
type Line struct {
	Args     []string          // words for the flag parser: --flag or --flag=value, then -- and the program
	Typed    map[string]string // gorun's flag → the word that the user typed
	Pending  []string          // accepted words without effect
	Blocks   []Block           // several programs; Args then hold the job's flags
	Dialect  Dialect           // dialect of the line
	replaced []string          // notices about words that gorun replaces
	ignored  []string          // launchers' settings without meaning to gorun: plm_base_verbose=5
	defaults []Default         // flags from variables
	faulty   error             // the first invalid variable
	file     programFile
	tuned    []tuning
}

// Notice returns one line about requests that gorun does not fulfil, or "".
func (t Line) Notice() string {
	var parts []string
	if len(t.ignored) > 0 {
		parts = append(parts, "ignored settings: "+strings.Join(prose.Unique(t.ignored), " "))
	}
	if len(t.Pending) > 0 {
		parts = append(parts, "no effect yet: "+strings.Join(prose.Unique(t.Pending), " "))
	}
	return strings.Join(append(parts, prose.Unique(t.replaced)...), "; ")
}

// Add adds the unfulfilled requests of another line.
func (t *Line) Add(other Line) {
	t.ignored = append(t.ignored, other.ignored...)
	t.Pending = append(t.Pending, other.Pending...)
	t.replaced = append(t.replaced, other.replaced...)
	t.tuned = append(t.tuned, other.tuned...)
}

// Translate translates a command line of any launcher. Flags end at the program or at --; only a
// colon that stands alone after a program starts flags again. flags are gorun's. A line that begins
// with one of commands stays as it is. Line.WithFile reads a file of programs, Line.Defaults
// returns what the variables of environ set. Errors are of type *usage.Error.
func Translate(argv, environ []string, dialect Dialect, flags *pflag.FlagSet, commands []string) (Line, error) {
	if len(argv) > 0 && slices.Contains(commands, argv[0]) {
		return Line{Args: argv}, nil
	}
	values := variables(environ)
	t, err := translateAs(argv, values, dialect, flags, false)
	if err != nil {
		// A later --dialect may make the word valid.
		if later, named := laterDialect(argv); named {
			if other, otherErr := translateAs(argv, values, later, flags, true); otherErr == nil &&
				other.Typed["dialect"] != "" {
				return other, nil
			}
		}
	}
	return t, err
}

// laterDialect returns the dialect named by the first word that may be --dialect.
func laterDialect(argv []string) (dialect Dialect, named bool) {
	for i, arg := range argv {
		name, given := strings.CutPrefix(arg, "--dialect=")
		if arg == "--dialect" && i+1 < len(argv) {
			name = argv[i+1]
			given = true
		}
		if given {
			return Named(name)
		}
	}
	return Own, false
}

// translateAs translates in a dialect that --dialect may have named.
func translateAs(argv []string, environ map[string]string, dialect Dialect, flags *pflag.FlagSet,
	named bool) (Line, error) {
	words := readTable()
	var read []*translator // one translator per block
	for rest, more := argv, true; more; {
		t := newTranslator(dialect, flags, words)
		t.rest = rest
		if len(read) == 0 {
			t.environ = environ
		}
		if err := t.readFlags(); err != nil {
			return t.Line, err
		}
		switch {
		case t.requested != t.dialect && named:
			return t.Line, usage.Errorf("leave one of them out", "--dialect is given twice: %v and %v", t.dialect,
				t.requested)
		case t.requested != t.dialect: // a --dialect among the flags changes their meaning
			return translateAs(argv, environ, t.requested, flags, true)
		case t.version:
			return Line{Args: []string{"version"}, Dialect: t.dialect}, nil
		}
		var err error
		if rest, more, err = t.readProgram(len(read) > 0); err != nil {
			return t.Line, err
		}
		read = append(read, t)
	}
	return joinBlocks(read, flags)
}

// readFlags reads the flags before a program. It stops at a flag that changes how all flags are
// read.
func (t *translator) readFlags() error {
	command := t.dialect.launcher().command
	if t.dialect == Flux && t.first() && len(t.rest) > 1 && t.rest[0] == "mini" && t.rest[1] == command {
		t.rest = t.rest[1:] // as older versions have it
	}
	if command != "" && t.first() && len(t.rest) > 0 && isPositional(t.rest[0]) && t.rest[0] != command {
		return usage.Errorf("write "+t.dialect.String()+" "+command+" and its flags, or run "+t.dialect.String()+
			" itself by its path", "%v %s: gorun only speaks for %v %s", t.dialect, t.rest[0], t.dialect, command)
	}
	if err := t.readWords(); err != nil {
		return err
	}
	if command != "" && t.first() && len(t.rest) > 0 && t.rest[0] == command {
		t.rest = t.rest[1:]
		if err := t.readWords(); err != nil {
			return err
		}
	}
	return t.finish()
}

// first reports whether t reads the first program of a line.
func (t *translator) first() bool { return t.environ != nil }

// readWords reads flags up to another word.
func (t *translator) readWords() error {
	for len(t.rest) > 0 && !isPositional(t.rest[0]) && t.rest[0] != "--" && t.requested == t.dialect && !t.version {
		if err := t.next(); err != nil {
			return err
		}
	}
	return nil
}

// finish translates requests that depend on several flags.
func (t *translator) finish() error {
	t.readVariables()
	t.emitHydraMap()
	t.emitThreads()
	t.emitInstalled()
	t.emitRole()
	if t.python.module && t.python.without {
		return usage.Errorf("leave one of them out", "--module runs a module of Python, and --no-python no Python")
	}
	if err := t.readConfig(); err != nil {
		return err
	}
	if err := t.emitDefaults(); err != nil {
		return err
	}
	err := t.emitNodes()
	if t.isVariable(t.nodes.typed) && t.faulty == nil {
		t.faulty = err
		err = nil
	}
	return err
}

// TranslateWords translates for a command without a program, whose flags may stand anywhere.
func TranslateWords(argv, environ []string, flags *pflag.FlagSet) (Line, error) {
	t := newTranslator(Own, flags, readTable())
	t.rest = argv
	t.environ = variables(environ)
	for len(t.rest) > 0 {
		if isPositional(t.rest[0]) || t.rest[0] == "--" {
			t.Args = append(t.Args, t.rest[0])
			t.rest = t.rest[1:]
			continue
		}
		if err := t.next(); err != nil {
			return t.Line, err
		}
	}
	return t.Line, t.finish()
}

func isPositional(arg string) bool { return arg == "-" || !strings.HasPrefix(arg, "-") }

// TranslateFlag translates one flag of a launcher, without dashes, with as many values as Takes
// returns. typed is the user's text.
func TranslateFlag(dialect Dialect, name, typed string, values []string, flags *pflag.FlagSet) (Line, error) {
	t := newTranslator(dialect, flags, readTable())
	m, err := t.meaning(name, typed)
	if err == nil {
		err = t.take(m, values)
	}
	if err == nil {
		err = t.finish()
	}
	return t.Line, err
}

// translator reads flags one by one.
type translator struct {
	Line
	flags     *pflag.FlagSet
	dialect   Dialect
	requested Dialect // named by --dialect, else dialect
	version   bool
	environ   map[string]string
	given     map[*word]bool // rows of the command line's flags
	table     table
	rest      []string // unread words
	typedAs   []string // the words that the user typed, one for each of Args
	program   []string

	nodes  nodeRange // torchrun's --nnodes
	python pythonFlags
	logs   torchLogs
	hydra  hydraUnits

	// accelerate's --config_file
	config programFile

	// the prefix of lines that mpirun's --output asks for
	tag, tagTime string

	// mpirun's --use-hwthread-cpus and --prefix DIR
	countThreads, installed, installedTyped string
}

// pythonFlags are how torchrun and deepspeed start Python.
type pythonFlags struct {
	without     bool // torchrun's --no-python
	module      bool
	noLocalRank bool   // deepspeed's --no_local_rank
	program     string // interpreter of Python; "": python
}

// torchLogs are torchrun's --redirects, --tee and --role.
type torchLogs struct {
	redirected, teed         redirection
	teeTyped, role, template string
}

// hydraUnits are Hydra's -map-by, as typed and as a part of a host, and -bind-to.
type hydraUnits struct{ mapped, typed, bound string }

func newTranslator(dialect Dialect, flags *pflag.FlagSet, words table) *translator {
	return &translator{
		Line:      Line{Typed: map[string]string{}, Dialect: dialect},
		flags:     flags,
		dialect:   dialect,
		requested: dialect,
		table:     words,
		given:     map[*word]bool{},
	}
}

// next reads the first flag of rest and its values.
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

// typedWord returns a typed flag without its =VALUE.
func typedWord(arg string) string {
	word, _, _ := strings.Cut(arg, "=")
	return word
}

// cluster reads single letters that share a dash: -vH a, -n4, -Ha:2.
func (t *translator) cluster(arg string) error {
	body := arg[1:]
	for end := len(body) - 1; end >= 2; end-- {
		if number := body[end:]; strings.Trim(number, "0123456789") == "" && t.known(body[:end]) {
			return usage.Errorf("write -"+body[:end]+" "+number, "unknown flag %s", arg)
		}
	}
	if first := rowsOf(t.table.flags[body[:1]], t.dialect); len(first) > 0 && first[0].args == 0 &&
		strings.Contains(body, "-") {
		return t.unknown(arg) // a long flag such as -std-proc, not a cluster of letters
	}
	if t.misspelled(body) {
		return t.unknown(arg)
	}
	for i := 0; i < len(body); i++ {
		letter := body[i : i+1]
		after := body[i+1:]
		if !t.known(letter) {
			return t.unknown(arg)
		}
		m, err := t.meaning(letter, "-"+letter)
		if err != nil {
			return err
		}
		var values []string
		if value, given := strings.CutPrefix(after, "="); given {
			values = []string{value}
			after = ""
		} else if after != "" && m.args != 0 {
			values = []string{after}
			after = ""
		}
		if err := t.take(m, values); err != nil || after == "" {
			return err
		}
	}
	return nil
}

// take reads the missing values of a word and applies it.
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
			return usage.Errorf("write "+m.typed+strings.Repeat(" VALUE", want)+" before the program", "%s needs %s",
				m.typed, need)
		}
		values = append(values, t.rest[0])
		t.rest = t.rest[1:]
	}
	if m.args == pair && want == 2 {
		values = []string{values[0] + "=" + values[1]}
	}
	if m.ours == "" && m.args == 0 && len(values) > 0 {
		return usage.Errorf("write "+m.typed+" alone", "%s takes no value", m.typed)
	}
	if m.ours == "" {
		for _, w := range m.rows {
			t.given[w] = true
		}
		return t.apply(m, values)
	}
	if m.ours == "dialect" {
		return t.chooseDialect(m.typed, values[0])
	}
	t.emit(m.ours, m.typed, values...)
	return nil
}

func (t *translator) chooseDialect(typed, name string) error {
	requested, known := Named(name)
	if !known {
		return Unknown("--dialect "+name, name)
	}
	t.requested = requested
	t.Typed["dialect"] = typed
	return nil
}

// emit adds a flag of gorun, with up to one value.
func (t *translator) emit(flag, typed string, values ...string) {
	if flag == "version" {
		t.version = true
		return
	}
	if flag == "hosts" && t.Typed["hosts"] != "" {
		for i, a := range t.Args { // host lists accumulate
			if strings.HasPrefix(a, "--hosts=") {
				t.Args[i] = a + "," + values[0]
				return
			}
		}
	}
	arg := "--" + flag
	if len(values) > 0 {
		arg += "=" + values[0]
	}
	if t.isVariable(typed) {
		t.defaults = append(t.defaults, Default{arg, typed})
		t.Typed[flag] = cmp.Or(t.Typed[flag], typed)
		return
	}
	t.Typed[flag] = typed
	t.Args = append(t.Args, arg)
	t.typedAs = append(t.typedAs, typed)
}

// isVariable reports whether a word is the name of a variable.
func (t *translator) isVariable(typed string) bool {
	_, is := t.environ[typed]
	return is
}

// retract removes a flag that another word replaces.
func (t *translator) retract(flag string) {
	for i := len(t.Args) - 1; i >= 0; i-- {
		if name, _, _ := strings.Cut(t.Args[i], "="); name == "--"+flag {
			t.Args = slices.Delete(t.Args, i, i+1)
			t.typedAs = slices.Delete(t.typedAs, i, i+1)
		}
	}
	delete(t.Typed, flag)
}

// pythonModule reads torchrun's --module, withoutPython its --no-python, and withoutLocalRank
// deepspeed's --no_local_rank.
func (t *translator) pythonModule(_, _ string) error     { t.python.module = true; return nil }
func (t *translator) withoutPython(_, _ string) error    { t.python.without = true; return nil }
func (t *translator) withoutLocalRank(_, _ string) error { t.python.noLocalRank = true; return nil }

// pythonOf reads torchrun's PYTHON_EXEC.
func (t *translator) pythonOf(_, text string) error { t.python.program = text; return nil }

// interpreter returns the name of Python: python, or python3 where the PATH of this machine has
// that alone, as Debian's has.
func (t *translator) interpreter() string {
	has := func(name string) bool {
		return slices.ContainsFunc(filepath.SplitList(t.environ["PATH"]), func(dir string) bool {
			info, err := os.Stat(filepath.Join(dir, name))
			return err == nil && info.Mode()&0o111 != 0
		})
	}
	if t.python.program == "" && !has("python") && has("python3") {
		return "python3"
	}
	return cmp.Or(t.python.program, "python")
}

// asProgram returns the program's command line. torchrun, deepspeed and accelerate run scripts with
// Python; deepspeed gives them the argument --local_rank.
func (t *translator) asProgram(program []string) []string {
	flags := []string{"-u"}
	if t.python.module {
		flags = append(flags, "-m")
	}
	isScript := t.python.module || t.dialect&(Torch|DeepSpeed|Accelerate) != 0 && !t.python.without
	switch {
	case t.dialect == DeepSpeed && !t.python.noLocalRank:
		script := `"$0" --local_rank="$LOCAL_RANK" "$@"`
		if isScript {
			script = t.interpreter() + " " + strings.Join(flags, " ") + " " + script
		}
		return slices.Concat([]string{"sh", "-c", "exec " + script}, program)
	case isScript:
		return slices.Concat([]string{t.interpreter()}, flags, program)
	}
	return program
}
