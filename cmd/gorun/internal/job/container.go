package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/rankenv"
)

// containerEnv adds the variables of a Singularity or Apptainer container to env. For a runtime
// that passes no variables on, it returns a hint with the command to type.
func containerEnv(program, env, exported []string) (set []string, hint string) {
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
	return env, notice(c, exported)
}

// notice returns how to pass the ranks' variables to the container, or "" if they arrive anyway.
func notice(c rankenv.Container, exported []string) string {
	exported, _ = shellWords(exported)
	flags := "$(gorun --print-env-flags"
	for _, name := range exported {
		flags += " -x " + name
	}
	flags += ")"
	switch c.Runtime {
	case rankenv.Docker:
		return fmt.Sprintf("%s does not give containers RANK, WORLD_SIZE and the like: write %s %s %s ...", c.Name,
			c.Name, c.Command, flags)
	case rankenv.Enroot:
		return fmt.Sprintf("enroot does not give containers RANK, WORLD_SIZE and the like: write enroot start %s "+
			"..., which is %s", flags, envFlags(exported))
	case rankenv.Pyxis:
		return "values that the image has for RANK, WORLD_SIZE and the like win over the ranks': write srun " +
			"--container-env=" +
			strings.Join(envNames(exported), ",") + " ..."
	}
	return ""
}

// envNames returns the names of the variables that a containerized program needs.
func envNames(exported []string) []string {
	names := rankenv.Names()
	for _, name := range exported {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// envFlags returns the -e options for docker, podman and enroot. They hold names only: values
// differ by rank and may be secrets.
func envFlags(exported []string) string {
	var words []string
	for _, name := range envNames(exported) {
		words = append(words, "-e", name)
	}
	return strings.Join(words, " ")
}

// shellWords splits names into those that a shell takes as one unquoted word, and the others.
func shellWords(names []string) (plain, odd []string) {
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
