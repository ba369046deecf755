package python

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
)

// standins has ranks find stand-ins for libcuda and libnccl, for which the memory of a GPU is the
// host's.
func standins(t *testing.T) {
	t.Helper()
	needs(t, "torch")
	lab.Need(t, "cc")
	dir := t.TempDir()
	must.OK(t, ringtest.Standins("../internal/nccl/testdata", dir))
	t.Setenv("RING_CUDA_LIB", filepath.Join(dir, "libcuda.so.1"))
	t.Setenv("RING_NCCL_LIB", filepath.Join(dir, "libnccl.so.2"))
	t.Setenv("STANDIN_DIR", t.TempDir())
}

func onThreeRanks(program ...string) []string {
	return append([]string{"-np", "3", "--oversubscribe", "--prefix", "none", interpreter}, program...)
}

// gorun.torch and the backend of torch.distributed on tensors that say they are on a GPU: what
// there is, in any order, by NCCL and through the host's memory.
func TestTorchOnDevices(t *testing.T) {
	standins(t)
	for _, how := range []string{"nccl", "host"} {
		for _, program := range []string{"torch_device.py", "backend_device.py"} {
			t.Run(how+"/"+program, func(t *testing.T) {
				t.Setenv("RING_DEVICE", how)
				out := strings.Join(succeed(t, nil, onThreeRanks(script(t, program))...), "\n")
				wantEach(t, out, "all right", 3)
			})
		}
	}
}

// Without a driver on one rank all are told, and tensors of the CPU are as ever.
func TestTorchWithoutGPU(t *testing.T) {
	standins(t)
	const without = `if [ $RANK = 1 ]; then export RING_CUDA_LIB=/nowhere/libcuda.so.1; fi; exec "$@"`
	args := append([]string{"-np", "3", "--oversubscribe", "--prefix", "none", "sh", "-c", without, "sh", interpreter},
		script(t, "torch_device.py"), "none")
	out := strings.Join(succeed(t, nil, args...), "\n")
	wantEach(t, out, "all right", 3)
}

// A rank that dies is named by the next operation on tensors of GPUs.
func TestTorchOnDevicesRankDies(t *testing.T) {
	standins(t)
	out, code := job(t, nil, onThreeRanks(script(t, "torch_device.py"), "dies")...)
	check.That(t, code == 128+9, "exit code %d, want that of the rank that was killed", code)
	wantEach(t, out, "told", 2)
}

// The ranks of `make gpu-test` are right about the stand-ins, whose memory is the host's, and about
// a rank that is killed.
func TestGPUCheckRanks(t *testing.T) {
	standins(t)
	t.Setenv("GPUCHECK_FAKE", "1")
	t.Setenv("STANDIN_DIR", t.TempDir())
	ranks := must.Get(filepath.Abs("../../internal/tools/gpucheck/ranks.py"))(t)
	for part, want := range map[string]string{"values-host": "calls are right, by host memory",
		"values-nccl": "calls are right, by NCCL", "dies": "the other rank was told after"} {
		t.Run(part, func(t *testing.T) {
			out, code := job(t, nil, "-np", "2", "--oversubscribe", "--gpus-per-rank", "none", "--prefix", "none",
				interpreter, ranks, part)
			wantCode := map[bool]int{true: 128 + 9}[part == "dies"]
			check.Equal(t, code, wantCode, "exit code")
			wantEach(t, out, want, 1)
		})
	}
}
