package lab

import (
	"path/filepath"
	"testing"
)

// TorchVersion is that of the newest PyTorch, which .ci/torch installs.
const TorchVersion = "2.15.0"

// Torch returns the folder of the programs of a Python that has the newest PyTorch. A machine
// without it skips the test.
func Torch(t testing.TB) (bin string) {
	t.Helper()
	bin, err := FindTorch()
	if err != nil {
		Skip(t, err.Error())
	}
	return bin
}

// FindTorch is [Torch] for programs that are no tests.
func FindTorch() (bin string, err error) {
	ready, found := Kept("pytorch-" + TorchVersion + "/ready")
	if !found {
		return "", &MissingError{"PyTorch " + TorchVersion, "run .ci/torch"}
	}
	return filepath.Join(filepath.Dir(ready), "bin"), nil
}
