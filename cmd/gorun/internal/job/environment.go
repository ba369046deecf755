package job

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/plan"
)

// maxEnvFile is the largest size of a file of variables in bytes.
const maxEnvFile = 16 << 20

// forwardEnv returns the environment of the ranks that the flags select.
func forwardEnv(environ []string, o *settings.Options) (plan.Environment, error) {
	var exports, warnings []string
	for _, name := range o.EnvFiles {
		more, odd, err := readEnvFile(name)
		if err != nil {
			return plan.Environment{}, err
		}
		exports = append(exports, more...)
		warnings = append(warnings, odd...)
	}
	exports = append(exports, o.Exports...) // -x wins over a file
	for _, pattern := range o.Unset {
		if name := strings.TrimSuffix(pattern, "*"); name != "" && !plan.IsVariable(name) {
			return plan.Environment{}, usage.Errorf("one name or PREFIX* a flag", "--unset-env %q: %q is not the name "+
				"of a variable", pattern, name)
		}
	}
	env, err := plan.ForwardEnv(selectVariables(environ, exports, o), exports)
	if err != nil {
		return env, usage.Errorf("for example -x NAME=value, or -x NAME for its value here; -x A -x B for two", "%w",
			err)
	}
	env.Warnings = append(warnings, env.Warnings...)
	return env, nil
}

// selectVariables returns environ without the variables of --unset-env, and with --no-env only
// those in exports. A variable named in exports always stays.
func selectVariables(environ, exports []string, o *settings.Options) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch {
		case slices.Contains(exports, name):
			return false
		case slices.ContainsFunc(o.Unset, func(pattern string) bool { return matches(pattern, name) }):
			return true
		}
		return o.NoEnv && !slices.ContainsFunc(exports, func(pattern string) bool { return matches(pattern, name) })
	})
}

// notInherited returns the variables that ranks must not inherit: on any host those of --unset-env;
// on this machine, where ranks inherit gorun's environment, also those that --no-env excludes. PATH
// and HOME stay.
func notInherited(environ []string, sent plan.Environment, o *settings.Options) (anywhere, here []string) {
	if !o.NoEnv && len(o.Unset) == 0 {
		return nil, nil
	}
	ordinary, _ := plan.ForwardEnv(environ, nil)
	ordinary.Set = append(ordinary.Set, ordinary.Withheld...)
	has := func(list []string, name string) bool {
		return slices.ContainsFunc(list, func(kv string) bool { n, _, _ := strings.Cut(kv, "="); return n == name })
	}
	names := slices.DeleteFunc(slices.Clone(o.Unset), func(pattern string) bool {
		return strings.HasSuffix(pattern, "*")
	})
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		names = append(names, name)
	}
	for _, name := range prose.Unique(names) {
		unset := slices.ContainsFunc(o.Unset, func(pattern string) bool { return matches(pattern, name) })
		switch {
		case name == "PATH" || name == "HOME" || name == "" || has(sent.Set, name):
		case unset:
			anywhere = append(anywhere, name)
		case o.NoEnv && has(ordinary.Set, name):
			here = append(here, name)
		}
	}
	return anywhere, here
}

// matches reports whether pattern, a NAME or PREFIX*, matches a variable.
func matches(pattern, name string) bool {
	if prefix, glob := strings.CutSuffix(pattern, "*"); glob {
		return strings.HasPrefix(name, prefix)
	}
	return pattern == name
}

func readEnvFile(name string) (exports, warnings []string, err error) {
	text, err := trust.ReadFile(name, maxEnvFile)
	if err != nil {
		return nil, nil, usage.Errorf(usage.FileHint(name, "check the name after --env-file"),
			"read the file of variables: %w", err)
	}
	return parseEnvFile(name, string(text))
}

// parseEnvFile parses NAME=value and NAME lines as Docker does: quotes belong to the value, empty
// lines and lines that begin with # are skipped.
func parseEnvFile(name, text string) (exports, warnings []string, err error) {
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line = strings.TrimRight(line, "\r\n")
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		variable, value, given := strings.Cut(strings.TrimPrefix(strings.TrimLeft(line, " \t"), "export "), "=")
		// No message quotes a value, or a line that may be the rest of one.
		wrong := ""
		switch {
		case strings.Contains(value, "\x00"):
			wrong = "the value of a variable has a NUL"
		case !plan.IsVariable(variable) && given:
			wrong = fmt.Sprintf("%q is not the name of a variable", usage.Clipped(variable))
		case !plan.IsVariable(variable):
			wrong = "this line has no name of a variable"
		}
		if wrong != "" {
			return nil, nil, usage.Errorf("write NAME=value, or NAME to send its value here", "%s:%d: %s", name, n,
				wrong)
		}
		if !given {
			exports = append(exports, variable)
			continue
		}
		if len(value) > 1 && value[0] == value[len(value)-1] && strings.IndexByte(`"'`, value[0]) >= 0 {
			warnings = append(warnings, fmt.Sprintf("%s:%d: the quotes around the value of %s are part of it", name, n,
				variable))
		}
		exports = append(exports, variable+"="+value)
	}
	return exports, warnings, nil
}

// ForRanks removes variables that describe one Slurm node or step, unless exports name them.
func ForRanks(env, exports []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return rankenv.OfSlurmNode(name) && !slices.ContainsFunc(exports, func(x string) bool {
			x, _, _ = strings.Cut(x, "=")
			return matches(x, name)
		})
	})
}

func printEnvFlags(environ []string, programs []program, out io.Writer, console *ui.UI) error {
	var exported, warnings []string
	for _, p := range programs {
		env, err := forwardEnv(environ, p.opts)
		if err != nil {
			return err
		}
		exported = prose.Unique(append(exported, env.Exported...))
		warnings = prose.Unique(append(warnings, env.Warnings...))
	}
	names, odd := shellWords(exported)
	for _, w := range warnings {
		console.Warningf("%s", w)
	}
	for _, name := range odd {
		console.Warningf("-x %q: left out: it is not a shell word", name)
	}
	_, err := fmt.Fprintln(out, envFlags(names))
	return err
}

// missed returns the withheld variables whose absence may have failed a rank, by the last lines of
// its stderr: those that the lines name, or all if the lines speak of authorization.
func missed(withheld, lines []string) []string {
	text := strings.Join(lines, "\n")
	words := strings.FieldsFunc(text, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	named := slices.DeleteFunc(slices.Clone(withheld), func(name string) bool { return !slices.Contains(words, name) })
	if len(named) > 0 {
		return named
	}
	text = strings.ToLower(text)
	speaks := func(sign string) bool { return strings.Contains(text, sign) }
	if slices.ContainsFunc([]string{"authoriz", "authentic", "forbidden", "credential", "access denied",
		"accessdenied", "api key", "api_key", "apikey", "log in", "login"}, speaks) {
		return withheld
	}
	return nil
}
