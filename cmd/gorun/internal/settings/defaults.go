package settings

import (
	"cmp"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/usage"
)

// maxConfig is the largest size of a configuration file in bytes.
const maxConfig = 1 << 20

// SetDefaults sets the flags that neither the command line nor a job file has set: first from
// GORUN_ variables, then from those of other launchers, then from the file of defaults. The flags
// that choose the hosts count as one setting.
func SetDefaults(flags *pflag.FlagSet, lookup func(string) (string, bool), others []dialect.Default,
	file settings) error {
	errs := append(setFromVariables(flags, lookup), setAll(flags, others)...)
	if len(errs) == 0 {
		return file.Apply(flags)
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs[0]
}

// setAll sets the flags that are still unset. A repeatable flag gets all its values. A variable of
// the ranks counts unless another of its name is exported.
func setAll(flags *pflag.FlagSet, defaults []dialect.Default) (errs []error) {
	changed := Given(flags)
	where := HostsChosen(flags)
	for _, d := range defaults {
		name, value, valued := strings.Cut(strings.TrimPrefix(d.Arg, "--"), "=")
		f := flags.Lookup(name)
		if f == nil || changed[f.Name] && (f.Name != "export" || exports(f, value)) || choosesHosts(f.Name) && where {
			continue
		}
		if !valued {
			value = f.NoOptDefVal
		}
		if err := flags.Set(name, value); err != nil {
			errs = append(errs, usage.Errorf(unset(d.Variable), "%s in the environment means --%s %q: %w",
				d.Variable, name, value, rejection(err)))
		}
	}
	return errs
}

// exports reports whether a flag has the variable of NAME or NAME=value.
func exports(f *pflag.Flag, variable string) bool {
	list, _ := f.Value.(pflag.SliceValue)
	name, _, _ := strings.Cut(variable, "=")
	return slices.ContainsFunc(list.GetSlice(), func(set string) bool {
		set, _, _ = strings.Cut(set, "=")
		return set == name
	})
}

// setFromVariables sets flags that are still unset from GORUN_ variables.
func setFromVariables(flags *pflag.FlagSet, lookup func(string) (string, bool)) (errs []error) {
	where := HostsChosen(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Changed || (choosesHosts(f.Name) && where) || f.Name == "help" {
			return
		}
		variable := "GORUN_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := lookup(variable)
		if !ok || value == "" || serviceLink(variable, value) || FlagsByName()[f.Name].NoVariable {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			// The value did not come from a flag, so the error names the variable.
			errs = append(errs, usage.Errorf(unset(variable), "%s=%s: %w", variable, value, rejection(err)))
		}
	})
	return errs
}

// unset is the hint for a variable that cannot be a setting.
func unset(variable string) string { return "correct the variable, or leave it out: unset " + variable }

// serviceLink reports a variable that describes a service, not a setting: Kubernetes sets
// GORUN_SSH_PORT=tcp://10.0.0.1:22 in every pod if there is a Service named gorun-ssh, and so do
// container links of Docker. The other variables of a service, such as GORUN_SSH_SERVICE_HOST, name
// no flag.
func serviceLink(variable, value string) bool {
	scheme, address, found := strings.Cut(value, "://")
	if !found || !strings.HasSuffix(variable, "_PORT") || !slices.Contains([]string{"tcp", "udp", "sctp"}, scheme) {
		return false
	}
	_, err := netip.ParseAddrPort(address)
	return err == nil
}

// ReadDefaults reads the named file of defaults, or else ~/.config/gorun/config.yaml if it exists.
// Like ssh it refuses the latter if another user can change it. Relative paths start at the current
// directory, where no program is taken from.
func ReadDefaults(named string, flags *pflag.FlagSet, lookup func(string) (string, bool)) (settings, error) {
	name := cmp.Or(named, DefaultsFile(lookup))
	if name == "" {
		return settings{}, nil
	}
	if named == "" {
		switch err := trust.CheckOptional(name); {
		case errors.Is(err, fs.ErrNotExist):
			return settings{name: name}, nil
		case err != nil:
			return settings{}, usage.Errorf(usage.Hint(err), "read the configuration: %w", err)
		}
	}
	s, err := readSettings(name, flags)
	switch {
	case err == nil && s.Command != nil:
		return s, usage.Errorf("name the file with --config-file", "%s:%d: only a job file may name a program", name,
			s.line)
	case err == nil:
		err = s.checkPrograms()
	}
	return s, err
}

// DefaultsFile returns the path of the user's file of defaults, or "" for a user without a home
// directory.
func DefaultsFile(lookup func(string) (string, bool)) string {
	dir, _ := lookup("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home := homeDir(lookup)
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "gorun", "config.yaml")
}

// homeDir returns the user's home directory, or "" if there is none. It is never relative: others
// may have prepared the current directory.
func homeDir(lookup func(string) (string, bool)) string {
	home, _ := lookup("HOME")
	if account, err := user.Current(); home == "" && err == nil {
		home = account.HomeDir
	}
	if !filepath.IsAbs(home) {
		return ""
	}
	return home
}

// ReadJobFile reads a job file; an empty name gives no settings. Relative paths start at the file's
// folder. A command that runs other files than its program by relative paths is for there alone.
func ReadJobFile(name string, flags *pflag.FlagSet, lookup func(string) (string, bool)) (settings, error) {
	if name == "" {
		return settings{}, nil
	}
	s, err := readSettings(name, flags)
	if err == nil && !isCurrent(filepath.Dir(name)) {
		err = s.checkCommands()
	}
	return s.relativeTo(filepath.Dir(name), homeDir(lookup)), err
}

// isCurrent reports whether a folder is the current one.
func isCurrent(dir string) bool {
	there, err := os.Stat(dir)
	here, hereErr := os.Stat(".")
	return err == nil && hereErr == nil && os.SameFile(there, here)
}

func readSettings(name string, flags *pflag.FlagSet) (settings, error) {
	text, err := trust.ReadFile(name, maxConfig)
	if err != nil {
		hint := usage.FileHint(name, "check the name after --config-file or --config, or in GORUN_CONFIG")
		return settings{}, usage.Errorf(hint, "read the configuration: %w", err)
	}
	return parseSettings(name, text, flags)
}
