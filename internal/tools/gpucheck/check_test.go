package gpucheck

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

const interpreter = "/usr/bin/python3"

// The decisions of check.py: comparing inventories, reading outputs, timeouts and verdicts.
func TestPureParts(t *testing.T) {
	must.HaveTime(t)
	lab.Need(t, interpreter)
	cmd := exec.Command(interpreter, "-B", "-m", "unittest", "-q", "test_check")
	out, err := cmd.CombinedOutput()
	check.That(t, err == nil && strings.Contains(string(out), "OK"), "%v\n%s", err, out)
}

// A machine without a GPU gets a message and a distinct exit code.
func TestWithoutGPU(t *testing.T) {
	lab.Need(t, interpreter)
	cmd := exec.Command(interpreter, "-B", "check.py")
	cmd.Env = append(cmd.Environ(), "PATH=/nowhere")
	out, err := cmd.CombinedOutput()
	must.That(t, cmd.ProcessState != nil, "%v", err)
	code := cmd.ProcessState.ExitCode()
	check.That(t, code == 77 && strings.HasPrefix(string(out), "gpu-test: no GPU: "), "exit code %d: %s", code, out)
}
