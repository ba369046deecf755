package python

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// newest returns the Python that has the newest PyTorch, or skips the test.
func newest(t testing.TB) string {
	t.Helper()
	return filepath.Join(lab.Torch(t), "python")
}

// Elements of a sparse tensor that a rank sends are within its shape. The newest PyTorch checks
// that only if it is asked to.
func TestSparseTensorsOfAHostileRankAreChecked(t *testing.T) {
	python := newest(t)
	lines := succeed(t, nil, "-np", "2", "--prefix", "none", python, script(t, "sparse_hostile.py"))
	check.Equal(t, strings.Join(lines, "|"), "all right|all right")
}

// PyTorch's own tests of torch.distributed pass with backend gorun if they pass with gloo, of which
// testdata has the list.
func TestPyTorchsTests(t *testing.T) {
	python := newest(t)
	for _, ranks := range []string{"2", "4"} {
		t.Run(ranks, func(t *testing.T) {
			text := must.Get(os.ReadFile("testdata/torch-" + lab.TorchVersion + "-gloo.txt"))(t)
			var names []string
			for line := range strings.Lines(string(text)) {
				name, only, found := strings.Cut(strings.TrimSpace(line), " ")
				if name != "#" && (!found || only == "["+ranks+"]") {
					names = append(names, name)
				}
			}
			args := []string{"-np", ranks, "--oversubscribe", "--prefix", "none", python, script(t, "torch_suite.py"),
				"gorun", t.TempDir()}
			out, code := job(t, nil, append(args, names...)...)
			lines := strings.Split(out, "\n")
			for _, name := range names {
				check.That(t, slices.Contains(lines, "ok "+name), "%s does not pass", name)
			}
			check.That(t, code == 0 && !t.Failed(), "exit code %d\n%s", code, out)
		})
	}
}

// JAX's ranks find each other without arguments.
func TestJAX(t *testing.T) {
	out := strings.Join(succeed(t, nil, "-np", "2", "--oversubscribe", "--prefix", "none", newest(t),
		script(t, "jax_distributed.py")), "\n")
	wantEach(t, out, "all right", 2)
}

// The newest PyTorch trains, compiled and by pipelines, and finds the backend in groups.
func TestNewestPyTorch(t *testing.T) {
	python := newest(t)
	for _, c := range []struct{ program, ranks string }{
		{"backend_registered.py", "4"}, {"backend_compile.py", "2"}, {"backend_hooks.py", "2"},
		{"backend_collectives.py", "4"}, {"backend_ddp.py", "4"},
	} {
		t.Run(strings.TrimSuffix(c.program, ".py"), func(t *testing.T) {
			out := strings.Join(succeed(t, nil, "-np", c.ranks, "--oversubscribe", "--prefix", "none", python,
				script(t, c.program), filepath.Join(t.TempDir(), "store")), "\n")
			wantEach(t, out, "all right", int(c.ranks[0]-'0'))
		})
	}
	t.Run("survivable errors", func(t *testing.T) {
		out := strings.Join(succeed(t, nil, "-np", "4", "--oversubscribe", "--prefix", "none", python,
			script(t, "backend_errors.py"), "survivable"), "\n")
		wantEach(t, out, "all right", 4)
	})
}
