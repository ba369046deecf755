package lab

import (
	"archive/zip"
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
)

// Python is Debian's, which has PyTorch and for which Horovod is built.
const Python = "/usr/bin/python3"

// Horovod unpacks the Horovod that .ci/horovod has built and returns the variable by which Python
// finds it, as NAME=value. A machine without it skips the test.
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

// UnpackHorovod is [Horovod] into dir, for programs that are no tests.
func UnpackHorovod(ctx context.Context, dir string) (variable string, err error) {
	const modules = "import importlib.util as u, sys; sys.exit(not all(u.find_spec(m) for m in ['torch', " +
		"'torchvision', 'filelock', 'psutil', 'yaml', 'cloudpickle', 'cffi', 'packaging']))"
	if err := exec.CommandContext(ctx, Python, "-c", modules).Run(); err != nil {
		return "", &MissingError{"a Python with torch, and what Horovod needs besides,", ".ci/setup installs them"}
	}
	name, err := builtHorovod()
	if err != nil {
		return "", err
	}
	wheel, err := zip.OpenReader(name)
	if err != nil {
		return "", err
	}
	defer wheel.Close()
	return "PYTHONPATH=" + dir, os.CopyFS(dir, wheel)
}

// HorovodSource returns a file of Horovod's repository, which .ci/horovod has fetched. A machine
// without it skips the test.
func HorovodSource(t testing.TB, path string) string {
	t.Helper()
	name, err := FetchedHorovodSource(path)
	if err != nil {
		Skip(t, err.Error())
	}
	return name
}

// FetchedHorovodSource is [HorovodSource] for a test that may lack the file.
func FetchedHorovodSource(path string) (name string, err error) {
	name, found := Kept("torch-*/horovod-0.28.1/" + path)
	if !found {
		return "", &MissingError{path + " of Horovod's repository", ".ci/horovod fetches it from GitHub"}
	}
	return name, nil
}

// builtHorovod returns the wheel that .ci/horovod has built.
func builtHorovod() (name string, err error) {
	name, found := Kept("torch-*/horovod-0.28.1-*.whl")
	if !found {
		return "", &MissingError{"Horovod", ".ci/horovod builds it, in many minutes"}
	}
	return name, nil
}
