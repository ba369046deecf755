package python

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/lab"
)

// onTwoHosts are the arguments of a job of four ranks on two hosts.
func onTwoHosts(t *testing.T, program string, args ...string) []string {
	return append([]string{"-np", "4", "-H", "f1:2,f2:2", "--prefix", "none", interpreter, script(t, program)}, args...)
}

// wantEach fails the test unless a text stands in the lines of n ranks.
func wantEach(t *testing.T, out, text string, n int) {
	t.Helper()
	if got := strings.Count(out, text); got != n {
		t.Errorf("%q comes %d times, want %d:\n%s", text, got, n, out)
	}
}

// Programs that end well with torch.distributed's backend gorun: all collectives of all types, DDP beside gloo, and
// errors after which all goes on.
func TestBackend(t *testing.T) {
	needs(t, "torch")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	for _, argv := range [][]string{{"backend_collectives.py"}, {"backend_ddp.py"}, {"backend_errors.py", "survivable"}} {
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
			if code != 128+9 {
				t.Errorf("exit code %d, want that of the rank that was killed", code)
			}
			wantEach(t, out, "told: ", 3)
			wantEach(t, out, "rank 2 on f2 was killed by signal 9", 1)
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
