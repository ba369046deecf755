package settings

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/cli/usage"
)

// maxConfig bounds a configuration file.
const maxConfig = 1 << 20

// SetDefaults gives flags that the command line and a job file left alone their value from
// the environment (GORUN_NP, GORUN_SSH_CONFIG, …), from mca (Open MPI's settings in the
// environment, as flags), or else from the file of defaults: flags > job file > environment >
// mca > file > built in. Where to run counts as one setting, whether it is said by
// hosts or by a hostfile.
func SetDefaults(flags *pflag.FlagSet, lookup func(string) (string, bool), mca []string, file settings) error {
	errs := append(setFromVariables(flags, lookup), setAll(flags, mca)...)
	if len(errs) == 0 {
		return file.Apply(flags)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs[0]
}

// setAll sets flags given as --name=value or --name that are not set yet. A list gets
// all that is given for it.
func setAll(flags *pflag.FlagSet, args []string) (errs []error) {
	changed := Given(flags)
	for _, arg := range args {
		name, value, valued := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		f := flags.Lookup(name)
		if f == nil || changed[f.Name] {
			continue
		}
		if !valued {
			value = f.NoOptDefVal
		}
		if err := flags.Set(name, value); err != nil {
			errs = append(errs, usage.Errorf("an Open MPI variable in the environment sets it", "--%s %q: %w", name, value, refused(err)))
		}
	}
	return errs
}

// setFromVariables sets the flags that are not set yet from variables.
func setFromVariables(flags *pflag.FlagSet, lookup func(string) (string, bool)) (errs []error) {
	where := placed(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || (isPlace(f.Name) && where) || f.Name == "help" || f.Name == "config" || f.Name == "config-file" {
			return
		}
		variable := "GORUN_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := lookup(variable)
		if !ok || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			// The user gave no flag: what is wrong must name the place where the value stands.
			errs = append(errs, usage.Errorf("", "%s=%s: %w", variable, value, refused(err)))
		}
	})
	return errs
}

// ReadDefaults reads the file of defaults that the user named, or the one in the usual
// place if there is one. Its paths begin where gorun was started.
func ReadDefaults(named string, flags *pflag.FlagSet, lookup func(string) (string, bool)) (settings, error) {
	name := named
	if name == "" {
		dir, ok := lookup("XDG_CONFIG_HOME")
		if !ok || dir == "" {
			home, _ := lookup("HOME")
			dir = filepath.Join(home, ".config")
		}
		name = filepath.Join(dir, "gorun", "config.yaml")
	}
	s, err := readSettings(name, flags)
	switch {
	case named == "" && errors.Is(err, fs.ErrNotExist):
		return settings{name: name}, nil
	case err == nil && s.Command != nil:
		return s, usage.Errorf("name the file with --config-file", "%s:%d: only a job file may name a program", name, s.line)
	}
	return s, err
}

// ReadJobFile reads a job file, whose paths begin at its own folder; without a name it says nothing.
func ReadJobFile(name string, flags *pflag.FlagSet, lookup func(string) (string, bool)) (settings, error) {
	if name == "" {
		return settings{}, nil
	}
	s, err := readSettings(name, flags)
	home, _ := lookup("HOME")
	return s.relativeTo(filepath.Dir(name), home), err
}

// readSettings reads one file.
func readSettings(name string, flags *pflag.FlagSet) (settings, error) {
	info, err := os.Stat(name)
	if err != nil {
		return settings{}, usage.Errorf("check the name after --config-file or --config, or in GORUN_CONFIG", "read the configuration: %w", err)
	}
	if info.Size() > maxConfig {
		return settings{}, usage.Errorf("", "%s is longer than %d bytes", name, maxConfig)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return settings{}, usage.Errorf("", "read the configuration: %w", err)
	}
	return parseSettings(name, text, flags)
}
