package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// BuildLibring builds libring.so into dir, as make build does, with ring.h beside it. root is the repository's.
func BuildLibring(root, dir string) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	capi := filepath.Join(root, "ring/capi")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-trimpath", "-tags", "netgo,osusergo",
		"-ldflags", "-extldflags '-Wl,-soname,libring.so -Wl,--version-script="+filepath.Join(capi, "exports.map")+"'",
		"-o", filepath.Join(dir, "libring.so"), ".")
	cmd.Dir = capi
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build libring.so: %w: %s", err, out)
	}
	header, err := os.ReadFile(filepath.Join(capi, "ring.h"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "ring.h"), header, 0o644)
}
