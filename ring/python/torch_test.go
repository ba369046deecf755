package python

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
)

// program runs one of the programs in tests/ as so many ranks on two hosts, and wants all of them
// to say that all is right.
func program(t *testing.T, ranks, name string) {
	t.Helper()
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	out := strings.Join(succeed(t, c, "-np", ranks, "-H", "f1:2,f2:2", "--prefix", "none", interpreter,
		script(t, name)), "\n")
	check.Equal(t, strings.Count(out, "all right"), int(ranks[0]-'0'), "of", ranks, "ranks were right:", out)
}

// Each operation, on each type and kind of shape, does what plain PyTorch makes of all ranks'
// tensors.
func TestTorchOperations(t *testing.T) {
	needs(t, "torch")
	program(t, "3", "torch_ops.py")
}

// What differs between ranks, is wrong on one, comes twice, too early, too late, in a fork or while
// Ctrl-C is pressed.
func TestTorchErrors(t *testing.T) {
	needs(t, "torch")
	program(t, "3", "torch_errors.py")
}

// Optimizers, their states, sparse gradients, batch normalization and data loaders.
func TestTorchTraining(t *testing.T) {
	needs(t, "torch", "numpy")
	program(t, "3", "torch_train.py")
}

// A process that gorun did not start is a job of one.
func TestTorchAlone(t *testing.T) {
	needs(t, "torch", "numpy")
	const alone = "import torch, gorun.torch as hvd\nhvd.init()\nassert hvd.size() == 1\n" +
		"assert hvd.allreduce(torch.ones(3)).tolist() == [1, 1, 1] and hvd.allgather_object('x') == ['x']\n" +
		"hvd.shutdown()\nprint('all right')"
	cmd := exec.Command(interpreter, "-c", alone)
	out, err := cmd.CombinedOutput()
	check.That(t, err == nil && string(out) == "all right\n", "%v: %s", err, out)
}

// Horovod's own tests of its operations pass against gorun.torch under its name, but for those that
// run.py leaves out.
func TestHorovodsTestsOnGorunTorch(t *testing.T) {
	needs(t, "torch", "numpy", "pytest", "mock", "cloudpickle", "packaging")
	tests := lab.HorovodSource(t, "test/parallel/test_torch.py")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	out := strings.Join(succeed(t, c, "-np", "2", "-H", "f1,f2", interpreter, script(t, "as_horovod/run.py"), tests),
		"\n")
	passed := regexp.MustCompile(`(?m)^f[12]:[01]: (\d\d)\d* passed`).FindAllStringSubmatch(out, -1)
	check.That(t, len(passed) == 2 && passed[0][1] >= "90", "want 90 tests or more to pass on 2 ranks:\n%s", out)
}

// What horovodrun's options say about timeline and stalls holds.
func TestTorchSettings(t *testing.T) {
	needs(t, "torch")
	trace := filepath.Join(t.TempDir(), "trace.json")
	const program = `
import time, torch, gorun.torch as hvd
hvd.init()
hvd.allreduce(torch.ones(3), name="traced")
if hvd.rank() == 1:
    time.sleep(5)
hvd.allreduce(torch.ones(3), name="awaited")
hvd.shutdown()
`
	out := strings.Join(succeed(t, nil, "-np", "2", "-x", "HOROVOD_TIMELINE="+trace, "-x",
		"HOROVOD_TIMELINE_MARK_CYCLES=1",
		"--output-filename", t.TempDir(), "-x", "HOROVOD_STALL_CHECK_TIME_SECONDS=1", "-x", "HOROVOD_CACHE_CAPACITY=0",
		"-x", "HOROVOD_FUSION_THRESHOLD=0",
		interpreter, "-c", program), "\n")
	if !regexp.MustCompile(`tensor "allreduce.awaited".* has waited .* for rank 1 .*; rank 0 waits at <string>:7\n`).MatchString(out) {
		t.Errorf("nobody said that rank 1 is awaited, and where:\n%s", out)
	}
	text, err := os.ReadFile(trace)
	check.That(t, err == nil && json.Valid(text) && strings.Contains(string(text), "allreduce.traced") &&
		strings.Contains(string(text), "CYCLE_START"), "the timeline is %q, %v", text, err)
}

// A rank that raises while others are in a call is named as the cause, though they end first.
func TestRankThatRaisesIsNamed(t *testing.T) {
	needs(t, "torch")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	for _, how := range []string{"queue", "backend"} {
		t.Run(how, func(t *testing.T) {
			out, code := job(t, c, onTwoHosts(t, "raises.py", how)...)
			check.That(t, code == 1 && strings.Contains(out, "error: rank 2 on f2 exited with code 1") &&
				strings.Contains(out, "ValueError: trouble of rank 2"),
				"exit code %d, and rank 2 is not named:\n%s", code, out)
		})
	}
}

// A collective that a rank forgets is reported with the rank, the call, and the line at which
// another rank waits for it: here in the backward pass of DistributedDataParallel, which waits in
// C++ and in a thread of its own.
func TestForgottenCollectiveIsLocated(t *testing.T) {
	needs(t, "torch")
	const program = `
import time, torch, torch.distributed as dist, gorun.torch_backend
dist.init_process_group("gorun")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3))
loss = model(torch.ones(3)).sum()
if dist.get_rank() == 0:
    time.sleep(6)
loss.backward()
`
	out := strings.Join(succeed(t, nil, "-np", "2", "-x", "RING_STALL=2s", "--output-filename", t.TempDir(),
		interpreter, "-c", program), "\n")
	if !regexp.MustCompile(`allreduce, call \d+ .*has waited 2s for rank 0 on localhost.*; rank 1 waits at <string>:8(\n|$)`).MatchString(out) {
		t.Errorf("nobody said that rank 0 is awaited, and where:\n%s", out)
	}
}
