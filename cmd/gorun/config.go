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
// configuration file: flags > environment > file > built in.
func setDefaults(flags *pflag.FlagSet, lookup func(string) (string, bool), file map[string]string, fileName string) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || f.Name == "help" || f.Name == "config" {
			return
		}
		variable := "GORUN_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value, ok := lookup(variable); ok && value != "" {
			if err := flags.Set(f.Name, value); err != nil {
				errs = append(errs, usagef("", "%s=%s: %w", variable, value, err))
			}
		} else if value, ok := file[f.Name]; ok {
			if err := flags.Set(f.Name, value); err != nil {
				errs = append(errs, usagef("", "%s: %s: %w", fileName, f.Name, err))
			}
		}
	})
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
			values[strings.ReplaceAll(name, "_", "-")] = fmt.Sprint(v)
		default:
			return nil, fmt.Errorf("%s: want one text, number or true/false", name)
		}
	}
	return values, nil
}
