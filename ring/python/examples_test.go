package python

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// example is the path of a program in examples/.
func example(t testing.TB, name string) string {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join("../../examples", name)))(t)
	return path
}

// trained checks what a training printed: the last accuracy is good, and all ranks have the same
// weights.
func trained(t *testing.T, lines []string, ranks int, good float64) {
	t.Helper()
	text := strings.Join(lines, "\n")
	accuracies := regexp.MustCompile(`epoch \d+: loss [\d.]+, accuracy ([\d.]+)%`).FindAllStringSubmatch(text, -1)
	weights := regexp.MustCompile(`rank \d of \d: .*weights ([\d.]+)`).FindAllStringSubmatch(text, -1)
	must.That(t, len(accuracies) != 0 && len(weights) == ranks,
		"%d epochs, %d ranks:\n%s", len(accuracies), len(weights), text)
	last, err := strconv.ParseFloat(accuracies[len(accuracies)-1][1], 64)
	check.That(t, err == nil && last >= good, "the last accuracy is %v %%, want %v:\n%s", last, good, text)
	for _, w := range weights {
		check.That(t, w[1] == weights[0][1], "ranks have other weights:\n%s", text)
	}
}

// The examples run as docs/python.md says, on two hosts.
func TestExamples(t *testing.T) {
	needs(t, "numpy", "torch")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	hosts := []string{"-np", "4", "-H", "f1:2,f2:2"}
	run := func(t *testing.T, args ...string) []string {
		t.Helper()
		return succeed(t, c, append(append(hosts, interpreter, example(t, args[0])), args[1:]...)...)
	}
	t.Run("numpy", func(t *testing.T) {
		text := strings.Join(run(t, "numpy_allreduce.py"), "\n")
		for _, want := range []string{"f2:3: rank 3 of 4: the mean is [ 0.   2.5  5.   7.5 10. ]",
			"f1:1: rank 1: 10 rows, settings {'lr': 0.1, 'layers': [64, 10]}"} {
			check.That(t, strings.Contains(text, want), "%q is not in\n%s", want, text)
		}
	})
	t.Run("mnist", func(t *testing.T) {
		trained(t, run(t, "pytorch_mnist.py"), 4, 85)
		trained(t, run(t, "pytorch_mnist.py", "--fp16-allreduce", "--epochs", "2"), 4, 20)
	})
	t.Run("synthetic benchmark", func(t *testing.T) {
		text := strings.Join(run(t, "pytorch_synthetic_benchmark.py", "--no-cuda", "--model", "small", "--image-size",
			"64", "--batch-size", "4",
			"--num-warmup-batches", "1", "--num-batches-per-iter", "1", "--num-iters", "2"), "\n")
		for _, want := range []string{`f1:0: Model: small\n`, `f1:0: Batch size: 4\n`, `f1:0: Number of CPUs: 4\n`,
			`f1:0: Iter #1: \d+\.\d img/sec per CPU\n`,
			`f1:0: Img/sec per CPU: \d+\.\d \+-\d+\.\d\n`, `f1:0: Total img/sec on 4 CPU\(s\): \d+\.\d \+-\d+\.\d$`} {
			check.That(t, regexp.MustCompile(want).MatchString(text), "%q is not in\n%s", want, text)
		}
	})
	t.Run("keras", func(t *testing.T) {
		python, found := lab.Kept("tensorflow-2.21.0/bin/python")
		if !found {
			lab.Skip(t, "needs TensorFlow: run .ci/tensorflow")
		}
		trained(t, succeed(t, c, append(hosts, "-x", "TF_CPP_MIN_LOG_LEVEL=3", python, example(t, "keras_mnist.py"),
			"--epochs", "6")...), 4, 85)
	})
}
