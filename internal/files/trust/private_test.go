package trust

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestOpenDirIsClosedToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a/b")
	if _, err := OpenDir(path, false); !os.IsNotExist(err) {
		t.Errorf("a directory that is missing: %v", err)
	}
	for _, repair := range []bool{true, false, true} {
		dir, err := OpenDir(path, repair)
		must.That(t, (err == nil) == repair, "repair %v: %v", repair, err)
		if err != nil {
			continue
		}
		info, err := dir.Stat()
		check.That(t, err == nil && info.Mode().Perm() == 0o700, "%v, %v", info, err)
		must.OK(t, dir.Chmod(0o750))
		dir.Close()
	}
}

func TestSoleFileHasOneName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	file := must.Get(os.Create(path))(t)
	defer file.Close()
	check.OK(t, CheckSole(file))
	must.OK(t, os.Link(path, path+"2"))
	check.That(t, CheckSole(file) != nil, "a file with two names is this user's alone")
}
