package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/gorun/gorun/internal/rankenv"
)

// Environment is the part of the launcher's environment that ranks get.
type Environment struct {
	Set      []string // NAME=value
	Exported []string // names of variables that -x requested
	Withheld []string // names of variables that look like secrets and were not exported
	Warnings []string
}

// ForwardEnv selects the variables of environ that ranks get: all but those bound to
// this host, set by another launcher, or that look like secrets. exports are the
// arguments of -x (NAME, NAME=value or PREFIX*) and are always forwarded. It is pure.
func ForwardEnv(environ, exports []string) (Environment, error) {
	var env Environment
	forced := map[string]string{}
	values := map[string]string{}
	var names []string
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
			if _, twice := values[name]; !twice {
				names = append(names, name)
			}
			values[name] = value
		}
	}
	for _, x := range exports {
		if err := export(x, names, values, forced, &env); err != nil {
			return env, err
		}
	}
	for _, name := range names {
		switch _, asked := forced[name]; {
		case asked, hostBound(name), rankenv.Stale(name):
		case secret(name, values[name]):
			env.Withheld = append(env.Withheld, name)
		default:
			env.Set = append(env.Set, name+"="+values[name])
		}
	}
	for name, value := range forced {
		env.Set = append(env.Set, name+"="+value)
		env.Exported = append(env.Exported, name)
	}
	slices.Sort(env.Set)
	slices.Sort(env.Exported)
	return env, nil
}

// IsVariable reports whether a text can be the name of a variable. Shells take fewer names.
func IsVariable(name string) bool {
	return name != "" && strings.IndexFunc(name, func(c rune) bool {
		return unicode.IsSpace(c) || unicode.IsControl(c) || strings.ContainsRune(",;=\"'`$\\", c)
	}) < 0
}

// export applies one argument of -x.
func export(x string, names []string, values, forced map[string]string, env *Environment) error {
	name, value, given := strings.Cut(x, "=")
	if given && name == "" {
		return errors.New("-x =...: a name must stand before the =")
	}
	if name != "" && !IsVariable(name) {
		return fmt.Errorf("-x: %q is not the name of a variable", name) // the value may be a secret
	}
	if given {
		forced[name] = value
		return nil
	}
	if prefix, glob := strings.CutSuffix(x, "*"); glob {
		for _, name := range names {
			// The pattern * alone exports neither host-bound variables nor secrets.
			all := prefix == "" && (hostBound(name) || secret(name, values[name]))
			if strings.HasPrefix(name, prefix) && !all && !rankenv.Stale(name) {
				forced[name] = values[name]
			}
		}
		return nil
	}
	value, set := values[x]
	switch {
	case x == "":
		return fmt.Errorf("-x needs the name of a variable")
	case !set:
		env.Warnings = append(env.Warnings, fmt.Sprintf("-x %s: not set here, so not sent", x))
	default:
		forced[x] = value
	}
	return nil
}

// hostBound reports whether a variable is meaningful on one host only, or would change
// what a program loads or what a shell runs.
func hostBound(name string) bool {
	switch name {
	case "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "PWD", "OLDPWD", "SHLVL", "_", "HOSTNAME", "HOST",
		"TMPDIR", "TMP", "TEMP", "DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY", "WINDOWID", "TERM", "COLUMNS", "LINES",
		"LS_COLORS", "PS1", "PS4", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "BASH_ENV", "ENV", "IFS", "LD_PRELOAD",
		"LD_AUDIT", "KRB5CCNAME",
		"KUBECONFIG", "STY", "TMUX", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "INVOCATION_ID", "JOURNAL_STREAM":
		return true
	}
	for _, p := range []string{"SSH_", "XDG_", "DBUS_", "BASH_FUNC_", "GPG_", "GIT_", "GORUN_", "SUDO_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// SessionNames returns the variables that sshd and shells set for a session. Ranks
// must not get them.
func SessionNames() []string {
	return []string{"SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "_", "OLDPWD", "SHLVL"}
}
