package fetch

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Files that are here already need no room, so that a copy may be repeated where it just fits.
func TestFilesThatAreHereNeedNoRoom(t *testing.T) {
	lab.NeedRoot(t)
	w := newWorld(t)
	must.OK(t, os.MkdirAll(w.dir, 0o755))
	must.OK(t, unix.Mount("none", w.dir, "tmpfs", 0, "size=1m,mode=755"))
	defer func() { check.OK(t, unix.Unmount(w.dir, unix.MNT_DETACH)) }()
	w.put("d/a", strings.Repeat("a", 400<<10), 0o644)
	w.put("d/b", strings.Repeat("b", 400<<10), 0o644)
	for range 2 {
		must.Get(w.bring("d"))(t)
	}
	w.put("d/c", strings.Repeat("c", 400<<10), 0o644)
	_, err := w.bring("d")
	check.That(t, err != nil && strings.Contains(err.Error(), "f1 announces 1228800 bytes: no space left"), "%v", err)
	check.Error(os.Lstat(filepath.Join(w.dir, "d/c"))).Is(t, fs.ErrNotExist)
	must.OK(t, os.RemoveAll(filepath.Join(w.dir, "d")))
	_, err = w.bring("d")
	check.That(t, err != nil && len(w.tree(filepath.Join(w.dir, "d"))) == 0, "%v: %q", err, w.tree(w.dir))
}
