package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// maxConfig bounds a configuration file.
const maxConfig = 1 << 20

// setDefaults gives flags that the command line left alone their value from
// the environment (GORUN_NP, GORUN_SSH_CONFIG, …), from settings (Open MPI's in the
// environment, as flags), or else from the configuration file: flags > environment >
// settings > file > built in. Where to run counts as one setting, whether it is said by
// hosts or by a hostfile.
func setDefaults(flags *pflag.FlagSet, lookup func(string) (string, bool), settings []string, file map[string]string, fileName string) error {
	environment := func(flag string) (value, source string, ok bool) {
		variable := "GORUN_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		value, ok = lookup(variable)
		return value, variable, ok && value != ""
	}
	configuration := func(flag string) (value, source string, ok bool) {
		value, ok = file[flag]
		return value, fileName + ": " + flag, ok
	}
	errs := setFrom(flags, environment)
	errs = append(errs, setAll(flags, settings)...)
	errs = append(errs, setFrom(flags, configuration)...)
	for name := range file {
		if name == "dialect" {
			errs = append(errs, usagef("set GORUN_DIALECT, or start gorun by another name", "%s: dialect has no effect here", fileName))
		} else if flags.Lookup(name) == nil {
			var known []string
			flags.VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
			h := "the keys are the long names of the flags: see gorun --help"
			if n := nearest(name, known); n != "" {
				h = "did you mean " + n + "?"
			}
			errs = append(errs, usagef(h, "%s: there is no setting %q", fileName, name))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs[0]
}

// setAll sets flags given as --name=value or --name that are not set yet. A list gets
// all that is given for it.
func setAll(flags *pflag.FlagSet, args []string) (errs []error) {
	changed := map[string]bool{}
	flags.Visit(func(f *pflag.Flag) { changed[f.Name] = true })
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
			var invalid *pflag.InvalidValueError
			if errors.As(err, &invalid) {
				err = reason(invalid)
			}
			errs = append(errs, usagef("it comes from a setting of Open MPI in the environment", "--%s %q: %w", name, value, err))
		}
	}
	return errs
}

// setFrom sets the flags that are not set yet from one source.
func setFrom(flags *pflag.FlagSet, source func(flag string) (value, source string, ok bool)) (errs []error) {
	where := flags.Changed("hosts") || flags.Changed("hostfile") || flags.Changed("host-discovery-script")
	flags.VisitAll(func(f *pflag.Flag) {
		place := f.Name == "hosts" || f.Name == "hostfile" || f.Name == "host-discovery-script"
		if f.Changed || (place && where) || f.Name == "help" || f.Name == "config" {
			return
		}
		if value, name, ok := source(f.Name); ok {
			if err := flags.Set(f.Name, value); err != nil {
				// The user gave no flag: what is wrong must name the place where the value stands.
				var invalid *pflag.InvalidValueError
				if errors.As(err, &invalid) {
					err = reason(invalid)
				}
				errs = append(errs, usagef("", "%s=%s: %w", name, value, err))
			}
		}
	})
	return errs
}

// readConfig reads the configuration file named by the user, or the one in
// the usual place if there is one. It is a flat map of flag names to values.
func readConfig(named string, lookup func(string) (string, bool)) (values map[string]string, name string, err error) {
	name = named
	if name == "" {
		dir, ok := lookup("XDG_CONFIG_HOME")
		if !ok || dir == "" {
			home, _ := lookup("HOME")
			dir = filepath.Join(home, ".config")
		}
		name = filepath.Join(dir, "gorun", "config.yaml")
	}
	info, err := os.Stat(name)
	if err != nil {
		if named == "" && errors.Is(err, fs.ErrNotExist) {
			return nil, name, nil
		}
		return nil, name, usagef("check the name after --config, or in GORUN_CONFIG", "read the configuration: %w", err)
	}
	if info.Size() > maxConfig {
		return nil, name, usagef("", "%s is longer than %d bytes", name, maxConfig)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, name, usagef("", "read the configuration: %w", err)
	}
	values, err = parseConfig(text)
	if err != nil {
		return nil, name, usagef("write one `name: value` a line, with the long names of the flags", "%s: %w", name, err)
	}
	return values, name, nil
}

// parseConfig turns YAML into flag values. It is pure.
func parseConfig(text []byte) (map[string]string, error) {
	var raw map[string]any
	if err := yaml.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	values := map[string]string{}
	for name, v := range raw {
		switch v := v.(type) {
		case string, int, int64, uint64, float64, bool:
			values[string(normalizeName(nil, name))] = fmt.Sprint(v)
		default:
			return nil, fmt.Errorf("%s: want one text, number or true/false", name)
		}
	}
	return values, nil
}
