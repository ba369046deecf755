package settings

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/cli/dialect"
	"github.com/gorun/gorun/internal/cli/usage"
)

// settings is what a file in YAML says of a run: a job file, or a file of defaults.
type settings struct {
	name    string    // of the file
	list    []setting // in the file's order
	Command []string  // the program and its arguments; nil: the file names none
	line    int       // of the program

	Undone dialect.Line // what words of horovodrun's in it ask for and do not get
}

// setting is a flag with its values: several where it may be repeated.
type setting struct {
	flag   string
	values []string
	line   int
}

// addsUp reports flags whose values in a file stay when there are others on the command line, which come after
// them and win.
func addsUp(flag string) bool {
	switch flag {
	case "export", "env-file", "unset-env", "stage":
		return true
	}
	return false
}

// isPlace reports the flags that say where to run.
func isPlace(flag string) bool {
	return flag == "hosts" || flag == "hostfile" || flag == "host-discovery-script"
}

// placed reports whether it has been said where to run.
func placed(flags *pflag.FlagSet) bool {
	return flags.Changed("hosts") || flags.Changed("hostfile") || flags.Changed("host-discovery-script")
}

// Given are the flags that are set.
func Given(flags *pflag.FlagSet) map[string]bool {
	set := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { set[f.Name] = true })
	return set
}

// Apply gives the flags that are not set yet their values in the file. Where to run counts as one setting,
// whichever flag says it.
func (s settings) Apply(flags *pflag.FlagSet) error {
	where, set := placed(flags), Given(flags)
	later := map[string][]string{} // what is said already of lists that add up
	for _, v := range s.list {
		f := flags.Lookup(v.flag)
		switch {
		case isPlace(v.flag) && where:
			continue
		case set[v.flag] && !addsUp(v.flag):
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
				return usage.Errorf(wants(f), "%s:%d: %s=%s: %w", s.name, v.line, v.flag, value, refused(err))
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

// Blame names the line that is at fault when all flags together make no sense: err begins with the flag, which
// may be one that the file has set, and typed, the command line, has not.
func (s settings) Blame(err error, typed map[string]bool) error {
	if err == nil {
		return nil
	}
	flag := strings.TrimLeft(strings.Fields(err.Error())[0], "-")
	for _, v := range s.list {
		if v.flag == flag && !typed[flag] {
			return usage.Errorf(usage.Hint(err), "%s:%d: %w", s.name, v.line, err)
		}
	}
	return err
}

// refused is why a flag cannot have a value, without the flag's name.
func refused(err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		return reason(invalid)
	}
	return err
}

// wants is a hint at what may be written for a flag.
func wants(f *pflag.Flag) string {
	if f.Value.Type() == "int" {
		return fmt.Sprintf("for example %s: 2", f.Name)
	}
	return ""
}

// relativeTo makes paths begin at the folder dir, and those that begin with ~/ at home.
func (s settings) relativeTo(dir, home string) settings {
	for i, v := range s.list {
		for j, value := range v.values {
			s.list[i].values[j] = pathFrom(dir, home, v.flag, value)
		}
	}
	return s
}

// pathFrom is a flag's value, begun at dir or home if it is a relative path of this machine or of the ranks.
func pathFrom(dir, home, flag, value string) string {
	switch flag {
	case "hostfile", "env-file", "wdir", "stage", "output-filename", "json-events", "ssh-config", "ssh-identity-file":
	default:
		return value
	}
	below, tilde := strings.CutPrefix(value, "~/")
	switch {
	case value == "" || filepath.IsAbs(value) || flag == "json-events" && strings.HasPrefix(value, "fd:"):
		return value
	case tilde && home != "":
		return filepath.Join(home, below)
	case strings.HasSuffix(value, "/"):
		return filepath.Join(dir, value) + "/"
	}
	return filepath.Join(dir, value)
}
