package space

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"golang.org/x/sys/unix"
)

func TestFullFileSystemsAreNamed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mount a file system: %v", err)
	}
	defer func() { check.OK(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	below := filepath.Join(dir, "a/b")
	must.OK(t, os.MkdirAll(below, 0o755))
	file := filepath.Join(below, "file")
	err := os.WriteFile(file, make([]byte, 2<<20), 0o600)
	got := Explain(Explain(err, below, 2<<20), below, 0).Error()
	want := "no space left on device: the file system at " + dir + " has 0 MiB free, and 2 MiB are needed"
	check.That(t, strings.HasSuffix(got, want) && strings.Count(got, "file system") == 1, "got %q, want %q", got, want)
	must.OK(t, os.Remove(file))
	got = Explain(syscall.EDQUOT, below, 0).Error()
	check.That(t, strings.HasSuffix(got, dir+" has 1 MiB free"), "%v", got)
	other := errors.New("other")
	check.That(t, Explain(other, below, 1) == other && Explain(nil, below, 1) == nil, "errors of other kinds change")
}
