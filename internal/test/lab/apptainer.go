package lab

import (
	"path/filepath"
	"testing"
)

// Apptainer returns the folder that .ci/apptainer has made. Its programs run on hosts that show it
// at /run/apptainer ([Spec].Mounts). A machine without it skips the test.
func Apptainer(t testing.TB) (dir string) {
	t.Helper()
	ready, found := Kept("apptainer-2/images/ready")
	if !found {
		Skip(t, "needs Apptainer and an image: run .ci/apptainer")
	}
	return filepath.Dir(filepath.Dir(ready))
}
