package settings

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/internal/usage"
)

// settings holds the contents of a YAML file: a job file or a file of defaults.
type settings struct {
	name    string    // name of the file
	list    []setting // settings in the file's order
	Command []string  // the program and its arguments; nil: the file names none
	line    int       // line of the program

	Unfulfilled dialect.Line // requests of horovodrun's keys that gorun does not fulfil
}

// setting is a flag and its values; a repeatable flag may have several.
type setting struct {
	flag   string
	values []string
	line   int
}

func hostFlags() []string {
	return []string{"hosts", "hostfile", "host-discovery-script", "hosts-from-pods"}
}

// choosesHosts reports the flags that choose the hosts.
func choosesHosts(flag string) bool {
	return slices.Contains(hostFlags(), flag)
}

// HostsChosen reports whether a flag that chooses the hosts is set.
func HostsChosen(flags *pflag.FlagSet) bool {
	return slices.ContainsFunc(hostFlags(), flags.Changed)
}

// Given returns the names of the flags that are set.
func Given(flags *pflag.FlagSet) map[string]bool {
	set := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { set[f.Name] = true })
	return set
}

// Apply sets the flags that are still unset from the file. The flags that choose the hosts count as
// one setting.
func (s settings) Apply(flags *pflag.FlagSet) error {
	where := HostsChosen(flags)
	set := Given(flags)
	later := map[string][]string{} // values of lists that the command line extends
	for _, v := range s.list {
		f := flags.Lookup(v.flag)
		switch {
		case choosesHosts(v.flag) && where:
			continue
		case set[v.flag] && !FlagsByName()[v.flag].Accumulates:
			continue
		}
		if list, ok := f.Value.(pflag.SliceValue); ok && set[v.flag] && later[v.flag] == nil {
			later[v.flag] = list.GetSlice()
			if err := list.Replace(nil); err != nil {
				return err
			}
		}
		for _, value := range v.values {
			if err := flags.Set(v.flag, value); err != nil {
				return usage.Errorf(exampleHint(f), "%s:%d: %s=%s: %w", s.name, v.line, v.flag, value, rejection(err))
			}
		}
	}
	for flag, values := range later {
		for _, value := range values {
			if err := flags.Set(flag, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Blame adds the file and line to err if it is about a flag that the file has set and the command
// line (typed) has not.
func (s settings) Blame(err error, typed map[string]bool) error {
	var fault *flagError
	if !errors.As(err, &fault) {
		return err
	}
	for _, v := range s.list {
		if v.flag == fault.flag && !typed[fault.flag] {
			return usage.Errorf(usage.Hint(err), "%s:%d: %w", s.name, v.line, err)
		}
	}
	return err
}

// rejection returns why a flag rejects a value, without the flag's name.
func rejection(err error) error {
	if invalid, is := errors.AsType[*pflag.InvalidValueError](err); is {
		return reason(invalid)
	}
	return err
}

// exampleHint returns a hint with an example value for a flag.
func exampleHint(f *pflag.Flag) string {
	if f.Value.Type() == "int" {
		return fmt.Sprintf("for example %s: 2", f.Name)
	}
	return ""
}

// relativeTo resolves relative paths against dir, and paths that begin with ~/ against home.
func (s settings) relativeTo(dir, home string) settings {
	for i, v := range s.list {
		for j, value := range v.values {
			s.list[i].values[j] = pathFrom(dir, home, v.flag, value)
		}
	}
	return s
}

// pathFrom resolves value against dir or home if the flag takes a path, and the program of value
// against dir if the flag takes a command.
func pathFrom(dir, home, flag, value string) string {
	known := FlagsByName()[flag]
	switch {
	case known.Command != nil:
		return known.Command(value, func(program string) string { return programFrom(dir, program) })
	case known.Path == nil || !known.Path(value):
		return value
	}
	below, tilde := strings.CutPrefix(value, "~/")
	switch {
	case value == "" || filepath.IsAbs(value):
		return value
	case tilde && home != "":
		return filepath.Join(home, below)
	case strings.HasSuffix(value, "/"):
		return filepath.Join(dir, value) + "/"
	}
	return filepath.Join(dir, value)
}
