package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BuildLibring builds libring.so.1 into dir, as make build does, with the link libring.so and
// ring.h beside it. root is the repository's.
func BuildLibring(root, dir string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	capi := filepath.Join(root, "ring/capi")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-tags", "netgo,osusergo",
		"-ldflags", "-extldflags '-Wl,-soname,libring.so.1 -Wl,--version-script="+filepath.Join(capi, "exports.map")+
			"'",
		"-o", filepath.Join(dir, "libring.so.1"), ".")
	cmd.Dir = capi
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build libring.so.1: %w: %s", err, out)
	}
	if err := os.Symlink("libring.so.1", filepath.Join(dir, "libring.so")); err != nil {
		return err
	}
	header, err := os.ReadFile(filepath.Join(capi, "ring.h"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "ring.h"), header, 0o644)
}

// BuildPMIx builds gorun-pmix into dir, as make build does, with more flags of the compiler. It
// needs a C compiler, pkg-config and libpmix-dev.
func BuildPMIx(root, dir string, flags ...string) error {
	const script = `out=$1 root=$0; shift; cc "$@" -std=gnu11 -Wall -Wextra -Werror -O2 -rdynamic -o "$out/gorun-pmix" "$root"/internal/mpi/pmix/helper/*.c $(pkg-config --cflags pmix) -ldl -lpthread`
	cmd := exec.Command("sh", append([]string{"-c", script, root, dir}, flags...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build gorun-pmix: %w: %s", err, out)
	}
	return nil
}

// BuildMPIR builds gorun-mpir into dir, as make build does, with more flags of the compiler. It
// needs a C compiler.
func BuildMPIR(root, dir string, flags ...string) error {
	const script = `out=$1 root=$0; shift; cc "$@" -std=gnu11 -Wall -Wextra -Werror -g -O2 -o "$out/gorun-mpir" "$root"/cmd/gorun/internal/mpir/helper/mpir.c`
	cmd := exec.Command("sh", append([]string{"-c", script, root, dir}, flags...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build gorun-mpir: %w: %s", err, out)
	}
	return nil
}

// BuildStatic builds programs of the repository at root into dir, without cgo, as make build does.
func BuildStatic(root, dir string, packages ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-o", dir + "/"}, packages...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w: %s", packages, err, out)
	}
	return nil
}

// RunBuilt runs the tests of m after build has put programs into a folder, which all users may
// enter and which is removed at the end. It returns the exit status.
func RunBuilt(m *testing.M, build func(dir string) error) int {
	dir, err := os.MkdirTemp("", "gorun-test-")
	if err == nil {
		defer os.RemoveAll(dir)
		if err = os.Chmod(dir, 0o755); err == nil {
			err = build(dir)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build programs for the tests:", err)
		return 1
	}
	return m.Run()
}
