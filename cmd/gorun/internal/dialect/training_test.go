package dialect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
	"github.com/spf13/pflag"
)

// A default hostfile says where the user's program runs, so nobody else may be able to change it.
func TestDefaultHostfileOfOthersIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hostfile")
	exists, err := usesDefault(file, "--hostfile")
	check.That(t, !exists && err == nil, "without a file: %v, %v", exists, err)
	must.OK(t, os.WriteFile(file, nil, 0o644))
	exists, err = usesDefault(file, "--hostfile")
	check.That(t, exists && err == nil, "with a file of the user's: %v, %v", exists, err)
	must.OK(t, os.Chmod(filepath.Dir(file), 0o777))
	exists, err = usesDefault(file, "--hostfile")
	check.That(t, !exists && err != nil && strings.Contains(err.Error(), "others can change ") && usage.Hint(err) != "",
		"with one that others can change: %v, %v", exists, err)
	must.OK(t, os.Remove(file))
	exists, err = usesDefault(file, "--hostfile")
	check.That(t, !exists && err == nil, "without a file, where others can make one: %v, %v", exists, err)
}

// Where PATH has python3 alone, scripts run by that.
func TestScriptsRunByThePythonThatIsThere(t *testing.T) {
	both := t.TempDir()
	alone := t.TempDir()
	for _, name := range []string{both + "/python", both + "/python3", alone + "/python3"} {
		must.OK(t, os.WriteFile(name, nil, 0o755))
	}
	for path, want := range map[string]string{
		"":                 "python",
		both:               "python",
		alone:              "python3",
		alone + ":" + both: "python",
	} {
		line := must.Get(Translate([]string{"--nproc-per-node=1", "train.py"}, []string{"PATH=" + path}, Torch,
			pflag.NewFlagSet("", pflag.ContinueOnError), nil))(t)
		check.That(t, slices.Contains(line.Args, want), "PATH=%s: %q has no %s", path, line.Args, want)
	}
}
