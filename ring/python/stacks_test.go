package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A rank that does not submit the tensor that others wait for is named, with the tensor and the
// rank's line.
func TestStacksNameTheRankThatOthersWaitFor(t *testing.T) {
	needs(t, "numpy")
	gorun := filepath.Join(os.Getenv("GORUN_TEST_BIN"), "gorun")
	env := append(os.Environ(), "HOME="+t.TempDir(), "XDG_RUNTIME_DIR="+t.TempDir())
	job := exec.CommandContext(t.Context(), gorun, "--name", "hangs", "-np", "3", interpreter, "tests/hangs.py")
	job.Env = env
	job.Stderr = os.Stderr
	must.OK(t, job.Start())
	defer func() { _ = job.Process.Kill(); _ = job.Wait() }()
	text := ""
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(text, "blocked (") &&
		time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		stacks := exec.Command(gorun, "stacks", "hangs")
		stacks.Env = env
		out, _ := stacks.CombinedOutput()
		text = string(out)
	}
	for _, want := range []string{`rank 2 has not come to allreduce of "allreduce.late", 32 bytes: 2 ranks (0-1) have waited for `,
		`its last was allreduce of "allreduce.all", call 1, 32 bytes, which ended `, "  <- rank 2\n",
		"blocked (tests/hangs.py:12)\n", "<- 2 ranks (0-1)\n"} {
		check.That(t, strings.Contains(text, want), "missing %q in\n%s", want, text)
	}
}
