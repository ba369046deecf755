package job

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
)

func TestContainerEnv(t *testing.T) {
	golden.Cases(t, "testdata/containers.txt", func(typed string) (string, error) {
		env := []string{"LD_LIBRARY_PATH=/lib", "SINGULARITYENV_B=mine", "B=2", "PATH=/bin", "A=1"}
		exported := []string{"B", "LD_LIBRARY_PATH", "PATH"}
		program, odd := strings.CutSuffix(typed, " odd")
		if odd {
			exported = append(exported, "A B", "$(x)")
		}
		set, hint := containerEnv(strings.Fields(program), slices.Clone(env), exported)
		check.That(t, slices.Equal(set[:len(env)], env), "%s: %q", typed, set)
		exported, _ = shellWords(exported)
		hint = strings.NewReplacer(envFlags(exported), "FLAGS", strings.Join(envNames(exported), ","),
			"NAMES").Replace(hint)
		return strings.TrimSpace(strings.Join(set[len(env):], " ") + " " + hint), nil
	})
}
