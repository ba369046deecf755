package lab

import (
	"archive/zip"
	"cmp"
	"context"
	"errors"
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
	variable, err := UnpackHorovod(t.Context(), t.TempDir())
	if missing := new(MissingError); errors.As(err, &missing) {
		Skip(t, missing.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return variable
}

// UnpackHorovod is [Horovod] into dir, outside tests.
func UnpackHorovod(ctx context.Context, dir string) (variable string, err error) {
	const modules = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in ['torch', 'torchvision', 'filelock', 'psutil', 'yaml', 'cloudpickle', 'cffi', 'packaging']))"
	if err := exec.CommandContext(ctx, Python, "-c", modules).Run(); err != nil {
		return "", &MissingError{"a Python with torch, and what Horovod needs besides,", ".ci/setup installs them"}
	}
	home, _ := os.UserHomeDir()
	wheels, _ := filepath.Glob(filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join(home, ".cache")), "gorun-ci/torch-*/horovod-0.28.1-*.whl"))
	if len(wheels) == 0 {
		return "", &MissingError{"Horovod", ".ci/horovod builds it, in many minutes"}
	}
	wheel, err := zip.OpenReader(wheels[0])
	if err != nil {
		return "", err
	}
	defer wheel.Close()
	return "PYTHONPATH=" + dir, os.CopyFS(dir, wheel)
}
