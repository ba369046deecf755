package python

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// interpreter is the Python that has Debian's PyTorch and NumPy.
const interpreter = "/usr/bin/python3"

// TestMain builds gorun and libring.so, and sets environment variables by which the tests and their
// ranks find them.
func TestMain(m *testing.M) { os.Exit(lab.RunBuilt(m, build)) }

func build(dir string) error {
	here, err := os.Getwd()
	if err = errors.Join(err, lab.BuildLibring("../..", dir),
		lab.BuildStatic("../..", dir, "./cmd/gorun")); err != nil {
		return err
	}
	for name, value := range map[string]string{"GORUN_TEST_BIN": dir, "GORUN_RING": filepath.Join(dir, "libring.so"),
		"PYTHONPATH":              here,
		"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
		"TORCHINDUCTOR_CACHE_DIR": filepath.Join(dir, "inductor")} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

// needs skips a test where the interpreter lacks a module.
func needs(t testing.TB, modules ...string) {
	t.Helper()
	for _, m := range modules {
		if err := exec.Command(interpreter, "-c", "import "+m).Run(); err != nil {
			lab.Skip(t, "needs python3-"+m)
		}
	}
}

// job runs gorun with args on the hosts of c, or on this machine if c is nil, and returns its
// output and exit code.
func job(t testing.TB, c *lab.Cluster, args ...string) (out string, code int) {
	t.Helper()
	return jobWithin(t, 5*time.Minute, c, args...)
}

// jobWithin is job that is ended after limit.
func jobWithin(t testing.TB, limit time.Duration, c *lab.Cluster, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return run(t, gorun(ctx, c, "", args...))
}

// gorun returns gorun with a command, or with a program if that is "", on the hosts of c.
func gorun(ctx context.Context, c *lab.Cluster, command string, args ...string) *exec.Cmd {
	argv := []string{filepath.Join(os.Getenv("GORUN_TEST_BIN"), "gorun")}
	if command != "" {
		argv = append(argv, command)
	}
	if c == nil {
		argv = append(argv, args...)
		return exec.CommandContext(ctx, argv[0], argv[1:]...)
	}
	argv = append(argv, "-F", c.ConfigFile)
	for _, name := range []string{"GORUN_RING", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "OMP_NUM_THREADS"} {
		argv = append(argv, "-x", name)
	}
	return c.Command(ctx, append(argv, args...)...)
}

// run returns the output and the exit code of a command.
func run(t testing.TB, cmd *exec.Cmd) (out string, code int) {
	t.Helper()
	var text bytes.Buffer
	cmd.Stdout = &text
	cmd.Stderr = &text
	err := cmd.Run()
	must.That(t, err == nil || cmd.ProcessState != nil, "%v", err)
	return text.String(), cmd.ProcessState.ExitCode()
}

// succeed is job for what must go well. It returns the lines that the ranks printed.
func succeed(t testing.TB, c *lab.Cluster, args ...string) []string {
	t.Helper()
	out, code := job(t, c, args...)
	must.That(t, code == 0, "gorun %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	return strings.Split(strings.TrimSpace(out), "\n")
}

// script is the path of one of the programs in tests/.
func script(t testing.TB, name string) string {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join("tests", name)))(t)
	return path
}
