package python

import (
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// onTwoHosts are the arguments of a job of four ranks on two hosts.
func onTwoHosts(t *testing.T, program string, args ...string) []string {
	return append([]string{"-np", "4", "-H", "f1:2,f2:2", "--prefix", "none", interpreter, script(t, program)}, args...)
}

// wantEach fails the test unless a text stands in the lines of n ranks.
func wantEach(t *testing.T, out, text string, n int) {
	t.Helper()
	got := strings.Count(out, text)
	check.That(t, got == n, "%q comes %d times, want %d:\n%s", text, got, n, out)
}

// Programs that end well with torch.distributed's backend gorun: all collectives of all types, DDP
// beside gloo, and errors after which all goes on.
func TestBackend(t *testing.T) {
	needs(t, "torch")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	for _, argv := range [][]string{{"backend_collectives.py"}, {"backend_ddp.py"}, {"backend_hooks.py"},
		{"backend_errors.py", "survivable"}} {
		t.Run(strings.TrimSuffix(argv[0], ".py"), func(t *testing.T) {
			out := strings.Join(succeed(t, c, onTwoHosts(t, argv[0], argv[1:]...)...), "\n")
			wantEach(t, out, "all right", 4)
		})
	}
}

// A rank that dies is named by the exceptions of the others, and by the job.
func TestBackendRankDies(t *testing.T) {
	needs(t, "torch")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	for _, how := range []string{"wait", "ddp"} {
		t.Run(how, func(t *testing.T) {
			out, code := job(t, c, onTwoHosts(t, "backend_errors.py", "dies", how)...)
			check.That(t, code == 128+9, "exit code %d, want that of the rank that was killed", code)
			wantEach(t, out, "told: ", 3)
			wantEach(t, out, "rank 2 on f2 was killed by signal 9", 1)
		})
	}
}

// The example learns the digits alike with both backends.
func TestPyTorchDDPExample(t *testing.T) {
	needs(t, "torch")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	example := must.Get(filepath.Abs("../../examples/pytorch_ddp.py"))(t)
	losses := map[string]float64{}
	for _, backend := range []string{"gorun", "gloo"} {
		out := strings.Join(succeed(t, c, "-np", "4", "-H", "f1:2,f2:2", "--prefix", "none", interpreter, example,
			"--backend", backend), "\n")
		found := regexp.MustCompile(`epoch 3: loss (\d\.\d+)`).FindStringSubmatch(out)
		share := regexp.MustCompile(`(\d+\.\d)% of \d+ digits right: 4 ranks, backend ` +
			backend).FindStringSubmatch(out)
		must.That(t, found != nil && share != nil, "%v", out)
		if right, err := strconv.ParseFloat(share[1], 64); err != nil || right < 75 {
			t.Errorf("%s: %s%% are right", backend, share[1])
		}
		losses[backend] = must.Get(strconv.ParseFloat(found[1], 64))(t)
	}
	if math.Abs(losses["gorun"]-losses["gloo"]) > 1e-3 { // after 270 steps
		t.Errorf("losses %v", losses)
	}
}

// Step time of DDP with 10 million parameters by backend gorun, and as a share of that by gloo. The
// goal is 0.9.
func BenchmarkDDP(b *testing.B) {
	needs(b, "torch")
	program := must.Get(filepath.Abs("tests/bench_ddp.py"))(b)
	for _, ranks := range []string{"2", "4"} {
		b.Run(ranks, func(b *testing.B) {
			var gorun, gloo, alone float64
			for range b.N {
				out := strings.Join(succeed(b, nil, "-np", ranks, "--oversubscribe", interpreter, program), "\n")
				at := max(0, strings.Index(out, "gorun "))
				var ours, theirs, none float64
				if _, err := fmt.Sscanf(out[at:], "gorun %f gloo %f alone %f", &ours, &theirs, &none); err != nil {
					b.Fatal(err, out)
				}
				gorun += ours
				gloo += theirs
				alone += none
			}
			b.ReportMetric(gorun/float64(b.N)*1000, "ms/step")
			b.ReportMetric(alone/float64(b.N)*1000, "ms/step-alone")
			b.ReportMetric(gorun/gloo, "of-gloo")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// Ranks whose tensors differ in length all hear of it.
func TestBackendMismatch(t *testing.T) {
	needs(t, "torch")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	out, _ := job(t, c, onTwoHosts(t, "backend_errors.py", "mismatch")...)
	wantEach(t, out, "told\n", 4)
}

// The last reference to a group may go away in a callback of one of its futures, or wherever Python
// collects garbage: so it may be its own thread that ends it.
func TestBackendEndsInItsOwnThread(t *testing.T) {
	needs(t, "torch")
	const check = `
import threading
from gorun.torch_backend.work import Keeper

class Call:
    ordered = True
    def settle(self, timeout):
        pass
    @property
    def promise(self):
        return self
    def set_result(self, _):
        try:
            keeper.close()
            ended.append(None)
        except BaseException as e:
            ended.append(e)

keeper, ended = Keeper("group", None), []
keeper.complete(Call())
for thread in threading.enumerate():
    if thread.name == "gorun-group":
        thread.join(60)
        assert not thread.is_alive()
assert ended == [None], ended
`
	must.Run(t, exec.CommandContext(t.Context(), interpreter, "-c", check))
}
