package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
)

// TestBenchDevice runs with stand-ins for the GPU libraries, whose device memory is the host's, and
// then without a driver.
func TestBenchDevice(t *testing.T) {
	lab.Need(t, "cc")
	dir := t.TempDir()
	must.OK(t, ringtest.Standins(root+"/ring/internal/nccl/testdata", dir))
	gorun := filepath.Join(dir, "gorun")
	must.OK(t, os.Link(command.Binary("gorun"), gorun))
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "gorun-bench"), "./cmd/gorun-bench")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=1")
	must.Run(t, build)
	program := []string{"bench", "allreduce", "-np", "2", "--gpus-per-rank", "none", "--device", "cuda", "--max", "64",
		"--time", "0.002"}
	env := []string{"RING_CUDA_LIB=" + filepath.Join(dir, "libcuda.so.1"), "RING_NCCL_LIB=" +
		filepath.Join(dir, "libnccl.so.2"), "STANDIN_DIR=" + t.TempDir()}
	r := command.StartPath(t, nil, gorun, env, program...).Want(0)
	lines := r.Lines()
	check.That(t, len(lines) == 5+4+3 && strings.Contains(lines[0], "; memory of GPUs, by NCCL "), "table:\n%s", &r.Out)
	command.StartPath(t, nil, gorun, []string{"RING_CUDA_LIB=/nowhere/libcuda.so.1"}, program...).Want(1,
		"no GPU can be used")
}
