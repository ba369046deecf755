package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// The wheel goes into an environment of its own, and has all that its tests need: nothing comes
// from the checkout.
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
		must.That(t, err == nil, "%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		return string(out)
	}
	do("make", "wheel", "PYTHON="+interpreter, "WHEELS="+dir)
	wheels, err := filepath.Glob(filepath.Join(dir, "gorun_launcher-*.whl"))
	must.That(t, err == nil && len(wheels) == 1, "%v, %v", wheels, err)
	if name := filepath.Base(wheels[0]); !regexp.MustCompile(
		`^gorun_launcher-[0-9][0-9a-z.+]*-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl$`).MatchString(name) {
		t.Errorf("the wheel is named %s", name)
	}
	member := func(name string) string {
		return do(interpreter, "-c", "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\n"+
			"print(*[z.read(n).decode() for n in z.namelist() if n.endswith('.dist-info/' + sys.argv[2])])", wheels[0],
			name)
	}
	for file, want := range map[string]string{"licenses/LICENSE": "Apache License",
		"METADATA": "takes the place of `horovod.torch`"} {
		text := member(file)
		check.That(t, strings.Contains(text, want), "%s has no %q:\n%s", file, want, text)
	}
	for _, want := range []string{"Name: gorun-launcher\n", "Author: The gorun authors",
		"Project-URL: Repository, https://"} {
		text := member("METADATA")
		check.That(t, strings.Contains(text, want), "the metadata have no %q:\n%s", want, text)
	}
	env := filepath.Join(dir, "env")
	do(interpreter, "-m", "venv", "--without-pip", "--system-site-packages", env) // for NumPy and PyTorch
	do(interpreter, "-m", "pip", "--python", filepath.Join(env, "bin/python"), "install", "--quiet", "--no-deps",
		"--no-index", wheels[0])
	gorun := filepath.Join(env, "bin/gorun")
	python := filepath.Join(env, "bin/python")
	if out := do(python, "-c", "import gorun._ring; print(gorun._ring.Library().path)"); !strings.HasPrefix(out, env) {
		t.Errorf("the library comes from %s", out)
	}
	if out := do(python, "-c", "import gorun; print(gorun.__version__)"); !strings.Contains(filepath.Base(wheels[0]),
		"-"+strings.TrimSpace(out)+"-") {
		t.Errorf("%s has version %s", wheels[0], out)
	}
	for _, program := range []string{"binding.py", "numpy_ops.py", "torch_train.py"} {
		out := do(gorun, "-np", "3", python, script(t, program))
		n := strings.Count(out, "all right")
		check.That(t, n == 3, "%s: %d of 3 ranks were right:\n%s", program, n, out)
	}
	if out := do(python, "-c", "import gorun; print(gorun.run(len, ('abc',), np=2))"); !strings.Contains(out,
		"[3, 3]") {
		t.Errorf("run says %s", out)
	}

	t.Run("newest PyTorch", func(t *testing.T) { // which finds the backend by the wheel's entry points
		python := newest(t)
		tree := filepath.Join(dir, "tree")
		do(interpreter, "-m", "zipfile", "-e", wheels[0], tree)
		const reduce = "import torch, torch.distributed as dist, sys\n" +
			"dist.init_process_group(*sys.argv[1:])\nx = torch.ones(2)\ndist.all_reduce(x)\n" +
			"assert x[0] == 2 and dist.group.WORLD._get_backend(torch.device('cpu')).name() == 'gorun'\nprint('all " +
			"right')"
		for _, words := range [][]string{{"-x", "GORUN_TORCH_BACKEND=1", python, "-c", reduce},
			{python, "-c", reduce, "gorun"}} {
			out := do(gorun, append([]string{"-np", "2", "-x", "PYTHONPATH=" + tree, "--prefix", "none"}, words...)...)
			check.That(t, strings.Count(out, "all right") == 2, "%v: %s", words, out)
		}
	})
}
