package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// The wheel goes into an environment of its own, and has all that its tests need: nothing comes from the checkout.
func TestWheel(t *testing.T) {
	needs(t, "numpy", "torch", "pip", "venv")
	dir := t.TempDir()
	do := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = "../.."
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
			return strings.HasPrefix(v, "PYTHONPATH=") || strings.HasPrefix(v, "GORUN_RING=")
		})
		out, err := cmd.CombinedOutput()
		if err != nil && strings.Contains(string(out), "No matching distribution found for hatchling") {
			lab.Skip(t, "needs hatchling of pypi.org")
		}
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	do("make", "wheel", "PYTHON="+interpreter, "WHEELS="+dir)
	wheels, err := filepath.Glob(filepath.Join(dir, "gorun-*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("%v, %v", wheels, err)
	}
	if name := filepath.Base(wheels[0]); !regexp.MustCompile(`^gorun-[0-9.]+-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl$`).MatchString(name) {
		t.Errorf("the wheel is named %s", name)
	}
	env := filepath.Join(dir, "env")
	do(interpreter, "-m", "venv", "--without-pip", "--system-site-packages", env) // for NumPy and PyTorch
	do(interpreter, "-m", "pip", "--python", filepath.Join(env, "bin/python"), "install", "--quiet", "--no-deps", "--no-index", wheels[0])
	gorun, python := filepath.Join(env, "bin/gorun"), filepath.Join(env, "bin/python")
	if out := do(python, "-c", "import gorun._ring; print(gorun._ring.Library().path)"); !strings.HasPrefix(out, env) {
		t.Errorf("the library comes from %s", out)
	}
	for _, program := range []string{"binding.py", "numpy_ops.py", "torch_train.py"} {
		out := do(gorun, "-np", "3", python, script(t, program))
		if n := strings.Count(out, "all right"); n != 3 {
			t.Errorf("%s: %d of 3 ranks were right:\n%s", program, n, out)
		}
	}
	if out := do(python, "-c", "import gorun; print(gorun.run(len, ('abc',), np=2))"); !strings.Contains(out, "[3, 3]") {
		t.Errorf("run says %s", out)
	}
}
