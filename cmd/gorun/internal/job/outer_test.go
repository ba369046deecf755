package job

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/usage"
)

// TestLauncherInLauncher reads testdata/outer.txt: variables of a process => whether it may start a
// job.
func TestLauncherInLauncher(t *testing.T) {
	golden.Cases(t, "testdata/outer.txt", func(variables string) (string, error) {
		env := map[string]string{}
		for kv := range strings.FieldsSeq(variables) {
			name, value, _ := strings.Cut(kv, "=")
			env[name] = value
		}
		err := CheckOuter(environ.Lookup(env))
		check.That(t, err == nil || usage.Is(err) && usage.Hint(err) != "", "%s: %v", variables, err)
		return "may", err
	})
}
