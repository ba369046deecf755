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
// the environment (GORUN_NP, GORUN_SSH_CONFIG, …), or else from the
// configuration file: flags > environment > file > built in. Where to run counts as
// one setting, whether it is said by hosts or by a hostfile.
func setDefaults(flags *pflag.FlagSet, lookup func(string) (string, bool), file map[string]string, fileName string) error {
	environment := func(flag string) (value, source string, ok bool) {
		variable := "GORUN_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
		value, ok = lookup(variable)
		return value, variable, ok && value != ""
	}
	configuration := func(flag string) (value, source string, ok bool) {
		value, ok = file[flag]
		return value, fileName + ": " + flag, ok
	}
	errs := append(setFrom(flags, environment), setFrom(flags, configuration)...)
	for name := range file {
		if flags.Lookup(name) == nil {
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

// setFrom sets the flags that are not set yet from one source.
func setFrom(flags *pflag.FlagSet, source func(flag string) (value, source string, ok bool)) (errs []error) {
	where := flags.Changed("hosts") || flags.Changed("hostfile")
	flags.VisitAll(func(f *pflag.Flag) {
		place := f.Name == "hosts" || f.Name == "hostfile"
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
		return nil, name, usagef("", "read the configuration: %w", err)
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
