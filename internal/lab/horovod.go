package lab

import (
	"archive/zip"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Python is Debian's, which has a PyTorch, and for which Horovod was built.
const Python = "/usr/bin/python3"

// Horovod unpacks Horovod, which .ci/horovod has built, and returns where Python finds it.
func Horovod(t testing.TB) (variable string) {
	t.Helper()
	Need(t, Python)
	const modules = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in ['torch', 'torchvision', 'filelock', 'psutil', 'yaml', 'cloudpickle', 'cffi', 'packaging']))"
	if err := exec.CommandContext(t.Context(), Python, "-c", modules).Run(); err != nil {
		Skip(t, "Python lacks torch, or what Horovod needs besides: .ci/setup installs them")
	}
	home, _ := os.UserHomeDir()
	wheels, _ := filepath.Glob(filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "gorun-ci/torch-*/horovod-0.28.1-*.whl"))
	if len(wheels) == 0 {
		Skip(t, "Horovod is not built: .ci/horovod does it, in many minutes")
	}
	dir := t.TempDir()
	wheel, err := zip.OpenReader(wheels[0])
	if err != nil {
		t.Fatal(err)
	}
	defer wheel.Close()
	if err := os.CopyFS(dir, wheel); err != nil {
		t.Fatal(err)
	}
	return "PYTHONPATH=" + dir
}
