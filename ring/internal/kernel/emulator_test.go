package kernel

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// The tests of this package also pass on arm64, as far as an emulator of it shows: it has NEON
// kernels.
func TestOnArm64(t *testing.T) {
	must.HaveTime(t)
	if runtime.GOARCH == "arm64" {
		return // they run there
	}
	lab.Need(t, "qemu-aarch64-static")
	program := filepath.Join(t.TempDir(), "kernel")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program)
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	must.That(t, err == nil, "build the tests: %v\n%s", err, out)
	if out, err := exec.CommandContext(t.Context(), "qemu-aarch64-static", program,
		"-test.short").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
