package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// TestDocsOfC runs docs/c.md on two hosts, with libring.so and ring.h in the folder lib, where make
// build puts them.
func TestDocsOfC(t *testing.T) {
	lab.Need(t, "gcc", "cc")
	lib := t.TempDir()
	must.OK(t, lab.BuildLibring(root, lib))
	c := lab.MustLoopback(t, lab.Specs(2)...)
	w := world{name: "libring", shell: func(ctx context.Context, dir, line string) *exec.Cmd {
		err := os.Symlink(lib, filepath.Join(dir, "lib"))
		check.That(t, err == nil || os.IsExist(err), "%v", err)
		cmd := c.Command(ctx, "bash", "-c", line)
		cmd.Env = []string{"PATH=" + dir + "/bin:" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8",
			"GORUN_SSH_CONFIG=" + c.ConfigFile}
		return cmd
	}}
	w.run(t)
}
