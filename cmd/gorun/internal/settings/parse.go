package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/internal/usage"
)

// settingsReader turns the nodes of a YAML file into settings.
type settingsReader struct {
	settings
	flags   *pflag.FlagSet
	program *yaml.Node // one word; its arguments are in args
	args    *yaml.Node
	bytes   int // of all values that were read
}

// maxValues bounds the bytes of all values. Where the file repeats one by an alias they are more
// than those of the file, and some are read twice.
const maxValues = 4 * maxConfig

// entry is a key of a map with its value.
type entry struct {
	name  string // spelled like a flag
	typed string // the file's spelling, with the section: params.cycle_time_ms
	line  int
	value *yaml.Node
}

// parseSettings parses a file whose keys are long flag names, the keys of a job file (env, command,
// program, args) and horovodrun's sections. Errors are usage errors that name the line.
func parseSettings(name string, text []byte, flags *pflag.FlagSet) (settings, error) {
	r := &settingsReader{settings: settings{name: name}, flags: flags}
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return r.settings, nil
	case err != nil:
		return r.settings, r.invalidYAML(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return r.settings, usage.Errorf("keep one of them", "%s: the file holds more than one document", name)
	}
	entries, err := r.entries(document.Content[0], "")
	if err != nil {
		return r.settings, err
	}
	for _, e := range entries {
		if err := r.read(e); err != nil {
			return r.settings, err
		}
	}
	return r.settings, r.join()
}

func (r *settingsReader) read(e entry) (err error) {
	s, isSection := sectionNamed(e.name)
	switch {
	case e.name == "env":
		return r.variables(e)
	case e.name == "command":
		r.Command, err = r.words(e)
		if r.line = e.line; err == nil && len(r.Command) == 0 {
			err = r.fault(e, "write the program and its arguments", "no program named")
		}
		return err
	case e.name == "program":
		r.program = e.value
		r.line = e.line
		_, err = r.text(e, e.value)
		return err
	case e.name == "args":
		r.args = e.value
		_, err = r.words(e)
		return err
	case e.name == "controller":
		return r.controller(e)
	case isSection:
		return r.section(e, s)
	}
	return r.flag(e)
}

// join joins program and args into the command.
func (r *settingsReader) join() error {
	at := entry{line: r.line, typed: "program"}
	switch {
	case r.program == nil && r.args != nil:
		at.line = r.args.Line
		at.typed = "args"
		return r.fault(at, "write program: ./train beside it", "args without a program")
	case r.program == nil:
		return nil
	case r.Command != nil:
		return r.fault(at, "leave one of them out", "command already names the program")
	}
	program, err := r.text(at, r.program)
	if err == nil && program == "" {
		err = r.fault(at, "write the program's name", "it is empty")
	}
	r.Command = []string{program}
	if err == nil && r.args != nil {
		var args []string
		args, err = r.words(entry{line: r.args.Line, typed: "args", value: r.args})
		r.Command = append(r.Command, args...)
	}
	return err
}

// flag reads a key that is a long flag name.
func (r *settingsReader) flag(e entry) (err error) {
	f := r.flags.Lookup(e.name)
	switch {
	case f == nil:
		return r.unknown(e, r.keys(), "the keys are env, command, and the long names of the flags: see gorun --help")
	case f.Name == "dialect":
		return usage.Errorf("set GORUN_DIALECT, or start gorun by another name", "%s:%d: dialect has no effect here",
			r.name, e.line)
	case f.Name == "config" || f.Name == "config-file" || f.Name == "help":
		return usage.Errorf("give it on the command line", "%s:%d: %s has no effect here", r.name, e.line, e.typed)
	}
	node := resolved(e.value)
	_, repeats := f.Value.(pflag.SliceValue)
	kind := f.Value.Type()
	var values []string
	switch {
	case node.Kind == yaml.SequenceNode && (repeats || f.Name == "stage" || f.Name == "hosts" || kind == "list" ||
		kind == "ranks"):
		if values, err = r.texts(e, node); err == nil && !repeats && f.Name != "stage" {
			values = []string{strings.Join(values, ",")}
		}
	default:
		var value string
		value, err = r.text(e, node)
		values = []string{plainBool(f, node, value)}
	}
	r.list = append(r.list, setting{f.Name, values, e.line})
	return err
}

// plainBool converts YAML's spellings of true and false to those of the flag parser.
func plainBool(f *pflag.Flag, node *yaml.Node, value string) string {
	var yes bool
	if kind := f.Value.Type(); kind != "bool" && kind != "count" || node.Decode(&yes) != nil {
		return value
	}
	if f.Value.Type() == "count" {
		return map[bool]string{true: "1", false: "0"}[yes]
	}
	return strconv.FormatBool(yes)
}

// variables reads env: a map, or a list of NAME=value, NAME and PREFIX*. A NAME without a value is
// sent with its value here.
func (r *settingsReader) variables(e entry) (err error) {
	var values []string
	switch node := resolved(e.value); node.Kind {
	case yaml.SequenceNode:
		values, err = r.texts(e, node)
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			name := node.Content[i]
			value := resolved(node.Content[i+1])
			variable := entry{line: name.Line, typed: "env." + name.Value}
			if name.Kind != yaml.ScalarNode || name.Value == "" || strings.ContainsAny(name.Value, "=\x00") {
				return r.fault(variable, "write NAME: value", "not a variable name")
			}
			if value.Tag == "!!null" {
				values = append(values, name.Value)
				continue
			}
			text, err := r.text(variable, value)
			if err != nil {
				return err
			}
			values = append(values, name.Value+"="+text)
		}
	default:
		return r.fault(e, "write NAME: value lines below it, or a list of NAME=value", "expected a map or a list")
	}
	r.list = append(r.list, setting{"export", values, e.line})
	return err
}

// words reads a list of words, or splits a text like a shell without expansion.
func (r *settingsReader) words(e entry) (words []string, err error) {
	node := resolved(e.value)
	if node.Kind == yaml.SequenceNode {
		return r.texts(e, node)
	}
	line, err := r.text(e, node)
	if err != nil {
		return nil, err
	}
	if words, err = usage.SplitShell(line); err != nil {
		err = r.fault(e, "write a list: [./train, --name, it's]", "%w", err)
	}
	return words, err
}

// texts returns the scalar values of a list.
func (r *settingsReader) texts(e entry, list *yaml.Node) (values []string, err error) {
	for _, item := range list.Content {
		value, err := r.text(e, item)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}

func (r *settingsReader) text(e entry, node *yaml.Node) (string, error) {
	node = resolved(node)
	if node.Line > 0 {
		e.line = node.Line
	}
	switch {
	case node.Kind == yaml.SequenceNode:
		return "", r.fault(e, "", "expected one value, not a list")
	case node.Kind != yaml.ScalarNode:
		return "", r.fault(e, "", "expected one value, not a map")
	case node.Tag == "!!null":
		return "", r.fault(e, "write one after the colon, or leave the line out", "it has no value")
	case strings.Contains(node.Value, "\x00"):
		return "", r.fault(e, "", "it holds a NUL byte")
	}
	if r.bytes += len(node.Value); r.bytes > maxValues {
		return "", r.fault(e, "repeat fewer values by *NAME", "all values together are longer than %d bytes", maxValues)
	}
	return node.Value, nil
}

// entries returns the keys of a map. within is the key of the map, or "" for the whole file.
func (r *settingsReader) entries(node *yaml.Node, within string) (list []entry, err error) {
	node = resolved(node)
	at := entry{line: node.Line, typed: within}
	if node.Kind != yaml.MappingNode {
		return nil, r.fault(at, "write one `name: value` a line", "expected names with values")
	}
	first := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		e := entry{
			typed: key.Value,
			line:  key.Line,
			value: node.Content[i+1],
			name:  string(dialect.Spelling(nil, key.Value)),
		}
		if within != "" {
			e.typed = within + "." + e.typed
		}
		switch line, twice := first[e.name]; {
		case key.Kind != yaml.ScalarNode:
			return nil, r.fault(e, "write one `name: value` a line", "not a name")
		case twice:
			return nil, r.fault(e, "leave one of them out", "set twice, first in line %d", line)
		}
		first[e.name] = e.line
		list = append(list, e)
	}
	return list, nil
}

func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// fault returns a usage error about a key.
func (r *settingsReader) fault(e entry, hint, format string, args ...any) error {
	where := fmt.Sprintf("%s:%d: ", r.name, e.line)
	if e.typed != "" {
		where += e.typed + ": "
	}
	return usage.Errorf(hint, "%s%w", where, fmt.Errorf(format, args...))
}

// unknown returns a usage error about an unknown key, with the nearest known one.
func (r *settingsReader) unknown(e entry, known []string, otherwise string) error {
	if n := usage.Nearest(e.name, known); n != "" {
		if strings.ContainsAny(e.typed, "_.") { // horovodrun's keys use underscores
			n = strings.ReplaceAll(n, "-", "_")
		}
		otherwise = "did you mean " + n + "?"
	}
	return usage.Errorf(otherwise, "%s:%d: unknown setting %q", r.name, e.line, e.typed)
}

// keys returns all keys of the top level, gorun's own first.
func (r *settingsReader) keys() []string {
	known := []string{"env", "command", "program", "args"}
	r.flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	for _, s := range horovodSections() {
		known = append(known, s.name)
	}
	return append(known, "controller")
}

// invalidYAML returns a usage error for text that is not YAML. The parser's error begins with the
// line, and quotes the file only where a value seems to be an anchor or refers to one.
func (r *settingsReader) invalidYAML(err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.Contains(text, "anchor '") {
		text = "a value that begins with * refers to no value of the file: put quotes around it"
	}
	where := r.name
	if rest, numbered := strings.CutPrefix(text, "line "); numbered {
		if line, what, ok := strings.Cut(rest, ": "); ok && !slices.ContainsFunc([]byte(line), func(c byte) bool {
			return c < '0' || c > '9'
		}) {
			where += ":" + line
			text = what
		}
	}
	return usage.Errorf("write one `name: value` a line, with the long names of the flags", "%s: not valid YAML: %s",
		where, text)
}
