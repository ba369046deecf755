package e2e

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// python is the interpreter that Horovod is built for.
const python = lab.Python

// Horovod's programs run as they are, on two hosts.
func TestHorovod(t *testing.T) {
	env := []string{lab.Horovod(t), "OMP_NUM_THREADS=1"}
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	for _, h := range []string{"f1", "f2"} { // what must not be chosen
		addInterface(t, c, h, "docker0", "172.17.0.1/16")
	}
	t.Run("benchmark", func(t *testing.T) {
		r := command.StartIn(t, c, env, "-np", "4", "-H", "f1:2,f2:2", python,
			lab.HorovodSource(t, "examples/pytorch/pytorch_synthetic_benchmark.py"), "--no-cuda",
			"--model", "squeezenet1_1", "--batch-size", "1", "--num-warmup-batches", "1", "--num-batches-per-iter", "1",
			"--num-iters", "1").Want(0)
		check.That(t, regexp.MustCompile(`f1:0: Total img/sec on 4 CPU\(s\): [0-9.]+`).MatchString(r.Out.String()),
			"%q", &r.Out)
	})
	t.Run("mnist", func(t *testing.T) {
		dir := t.TempDir()
		writeDigits(t, filepath.Join(dir, "MNIST/raw"))
		r := command.StartIn(t, c, env, "-np", "4", "-H", "f1:2,f2:2", python,
			lab.HorovodSource(t, "examples/pytorch/pytorch_mnist.py"), "--no-cuda", "--epochs", "1",
			"--batch-size", "16", "--test-batch-size", "32", "--data-dir", dir).Want(0)
		if !regexp.MustCompile(`(?m)^f1:0: Test set: Average loss: [0-9.]+, Accuracy: [0-9.]+%`).MatchString(
			r.Out.String()) {
			t.Errorf("%q", &r.Out)
		}
	})
	t.Run("collectives", func(t *testing.T) { testHorovodCollectives(t, c, env) })
	t.Run("late", func(t *testing.T) {
		// Gloo's timeout is 30 s; here it is 2.
		const late = "import time, os; time.sleep(5 * (os.environ['HOROVOD_RANK'] == '3'))\n" + hello
		r := command.StartIn(t, c, append(env, "HOROVOD_GLOO_TIMEOUT_SECONDS=2"), "-np", "4", "-H", "f1:2,f2:2", python,
			"-c", late).Want(0)
		r.WantLines("f1:0: 6.0", "f1:1: 6.0", "f2:2: 6.0", "f2:3: 6.0")
	})
	t.Run("death", func(t *testing.T) { testHorovodDeath(t, c, env) })
	t.Run("one host", func(t *testing.T) {
		command.StartIn(t, nil, env, "-np", "2", python, "-c", hello).Want(0).WantLines("localhost:0: 1.0",
			"localhost:1: 1.0")
	})
}

// Horovod's own tests of its operations pass under gorun, which they detect by mpirun's variables.
func TestHorovodsOwnTests(t *testing.T) {
	env := []string{lab.Horovod(t), "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1"}
	if err := exec.CommandContext(t.Context(), python, "-c", "import pytest, mock").Run(); err != nil {
		lab.Skip(t, "needs python3-pytest and python3-mock")
	}
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	for _, family := range []string{"allreduce", "allgather or broadcast"} {
		t.Run(family, func(t *testing.T) {
			// GPU tests skip by themselves; tests of huge tensors take a minute each.
			r := command.StartIn(t, c, env, "-np", "2", "-H", "f1,f2", python, "-m", "pytest", "-q", "-p",
				"no:cacheprovider",
				lab.HorovodSource(t, "test/parallel/test_torch.py"), "-k", "("+family+
					") and not cuda and not gpu").Want(0)
			if n := len(regexp.MustCompile(`(?m)^f[12]:[01]: [0-9]+ passed`).FindAllString(r.Out.String(),
				-1)); n != 2 {
				t.Errorf("%d ranks say that tests passed:\n%s", n, golden.Clip(r.Out.String()))
			}
		})
	}
}

// hello is a complete Horovod program: the sum of all ranks.
const hello = `
import torch, horovod.torch as hvd
hvd.init()
print(hvd.allreduce(torch.tensor(float(hvd.rank())), op=hvd.Sum).item())
`

// testHorovodCollectives covers rendezvous after the first: dynamic process sets, and Horovod
// initialized again.
func testHorovodCollectives(t *testing.T, c *lab.Cluster, env []string) {
	const program = `
import torch, horovod.torch as hvd
for turn in range(2):
    hvd.init(process_sets="dynamic")
    r = hvd.rank()
    said = [hvd.allgather(torch.tensor([r])).tolist(), hvd.broadcast(torch.tensor([r]), root_rank=3).tolist(),
            hvd.alltoall(torch.arange(4) + 10 * r).tolist(), hvd.broadcast_object("word", root_rank=2)]
    odd = hvd.add_process_set([1, 3])
    if r % 2:
        said.append(hvd.allreduce(torch.tensor([r]), op=hvd.Sum, process_set=odd).tolist())
    hvd.remove_process_set(odd)
    hvd.shutdown()
    print(turn, r, said)
`
	var want []string
	for turn := range 2 {
		for rank, set := range []string{"", ", [4]", "", ", [4]"} {
			want = append(want, fmt.Sprintf("f%d:%d: %d %d [[0, 1, 2, 3], [3], [%d, %d, %d, %d], 'word'%s]", rank/2+1,
				rank, turn, rank, rank, 10+rank, 20+rank, 30+rank, set))
		}
	}
	slices.Sort(want)
	command.StartIn(t, c, env, "-np", "4", "-H", "f1:2,f2:2", python, "-c", program).Want(0).WantLines(want...)
}

// A killed rank is named, and no other rank goes on without it. The goal is 2 s.
func testHorovodDeath(t *testing.T, c *lab.Cluster, env []string) {
	const program = hello + `
while True:
    hvd.allreduce(torch.ones(1000))
`
	r := command.StartIn(t, c, env, "-np", "4", "-H", "f1:2,f2:2", python, "-c", program)
	must.Until(t, "the ranks to train", func() bool { return strings.Count(r.Out.String(), "6.0") == 4 })
	var victim int
	for _, pid := range lab.Processes(r.Mark) {
		if strings.Contains(command.ProcFile(pid, "environ"), "HOROVOD_RANK=2\x00") &&
			strings.HasPrefix(command.ProcFile(pid, "cmdline"), python) {
			victim = pid
		}
	}
	err := syscall.Kill(victim, syscall.SIGKILL)
	must.That(t, err == nil && victim != 0, "kill rank 2, process %d: %v", victim, err)
	killed := time.Now()
	r.Want(137, "gorun: error: rank 2 on f2 was killed by signal 9 (SIGKILL)")
	took := time.Since(killed)
	t.Logf("over in %v", took)
	check.That(t, took <= 5*time.Second, "the job ended %v after the death", took)
}

// writeDigits writes a small random data set in MNIST's format.
func writeDigits(t *testing.T, dir string) {
	t.Helper()
	must.OK(t, os.MkdirAll(dir, 0o755))
	dice := rand.NewChaCha8([32]byte{})
	for name, n := range map[string]int{"train": 256, "t10k": 64} {
		images := bigEndian(0x803, n, 28, 28)
		labels := bigEndian(0x801, n)
		pixels := make([]byte, n*28*28)
		_, _ = io.ReadFull(dice, pixels)
		for i := range n {
			labels = append(labels, byte(i%10))
		}
		for file, data := range map[string][]byte{"images-idx3-ubyte": append(images, pixels...),
			"labels-idx1-ubyte": labels} {
			must.OK(t, os.WriteFile(filepath.Join(dir, name+"-"+file), data, 0o644))
		}
	}
}

func bigEndian(numbers ...int) (b []byte) {
	for _, n := range numbers {
		b = append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	}
	return b
}

// addInterface gives a host another network interface, or a bridge, that is up and has an address.
func addInterface(t *testing.T, c *lab.Cluster, host, name, prefix string) {
	t.Helper()
	script := `ip link add "$0" type veth peer name "peer-$0" && ip addr add "$1" dev "$0" && ip link set "peer-$0" up && ip link set "$0" up`
	must.Run(t, c.On(t.Context(), host, "sh", "-c", script, name, prefix))
}
