package lab

import (
	"os"
	"path/filepath"
	"testing"
)

// TorchVersion is that of the newest PyTorch, which .ci/torch installs.
const TorchVersion = "2.15.0"

// Torch returns the folder of the programs of a Python that has the newest PyTorch. A machine
// without it skips the test.
func Torch(t testing.TB) (bin string) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	env := filepath.Join(cache, "gorun-ci/pytorch-"+TorchVersion)
	if _, err := os.Stat(filepath.Join(env, "ready")); err != nil {
		Skip(t, "needs PyTorch "+TorchVersion+": run .ci/torch")
	}
	return filepath.Join(env, "bin")
}
