package job

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/cli/ui"
	"github.com/gorun/gorun/internal/rankenv"
)

// forContainer adds to env what reaches a Singularity or Apptainer container of the variables in
// exported, and says what the user must write for a program that gives containers
// nothing. It is pure.
func forContainer(program, env, exported []string) (set []string, notice string) {
	c := rankenv.FindContainer(program)
	switch {
	case c.Runtime == rankenv.Singularity:
		asked := slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
			name, _, _ := strings.Cut(kv, "=")
			return !slices.Contains(exported, name)
		})
		return append(env, rankenv.Prefixed(asked, rankenv.Taken(env))...), ""
	case c.Named():
		return env, ""
	}
	return env, containerNotice(c, exported)
}

// containerNotice says how a container's program learns of its rank; "" where it does so anyway.
func containerNotice(c rankenv.Container, exported []string) string {
	exported, _ = typable(exported)
	flags := "$(gorun --print-env-flags"
	for _, name := range exported {
		flags += " -x " + name
	}
	flags += ")"
	switch c.Runtime {
	case rankenv.Docker:
		return fmt.Sprintf("%s does not give containers RANK, WORLD_SIZE and the like: write %s %s %s ...", c.Name, c.Name, c.Command, flags)
	case rankenv.Enroot:
		return fmt.Sprintf("enroot does not give containers RANK, WORLD_SIZE and the like: write enroot start %s ..., which is %s", flags, envFlags(exported))
	case rankenv.Pyxis:
		return "values that the image has for RANK, WORLD_SIZE and the like win over the ranks': write srun --container-env=" +
			strings.Join(envNames(exported), ",") + " ..."
	}
	return ""
}

// envNames are the variables that a container's program needs.
func envNames(exported []string) []string {
	names := rankenv.Names()
	for _, name := range exported {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// envFlags are the options of docker, podman and enroot that give them to a container. No values are
// in them: those are each rank's own, and secrets.
func envFlags(exported []string) string {
	var words []string
	for _, name := range envNames(exported) {
		words = append(words, "-e", name)
	}
	return strings.Join(words, " ")
}

// typable are the names that may stand unquoted in a shell's line, and the others.
func typable(names []string) (plain, odd []string) {
	for _, name := range names {
		if strings.ContainsFunc(name, func(c rune) bool {
			return c != '_' && c != '.' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
		}) {
			odd = append(odd, name)
		} else {
			plain = append(plain, name)
		}
	}
	return plain, odd
}

// printEnvFlags is --print-env-flags: nothing is run.
func printEnvFlags(environ []string, programs []program, out io.Writer, say *ui.UI) error {
	var exported, warnings []string
	for _, p := range programs {
		env, err := forwardEnv(environ, p.opts)
		if err != nil {
			return err
		}
		exported, warnings = unique(append(exported, env.Exported...)), unique(append(warnings, env.Warnings...))
	}
	names, odd := typable(exported)
	for _, w := range warnings {
		say.Warningf("%s", w)
	}
	for _, name := range odd {
		say.Warningf("-x %q: left out: it is not a shell word", name)
	}
	_, err := fmt.Fprintln(out, envFlags(names))
	return err
}
