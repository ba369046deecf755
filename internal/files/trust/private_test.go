package trust

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOpenDirIsClosedToOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a/b")
	if _, err := OpenDir(path, false); !os.IsNotExist(err) {
		t.Errorf("a directory that is missing: %v", err)
	}
	for _, repair := range []bool{true, false, true} {
		dir, err := OpenDir(path, repair)
		if (err == nil) != repair {
			t.Fatalf("repair %v: %v", repair, err)
		}
		if err != nil {
			continue
		}
		if info, err := dir.Stat(); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info, err)
		}
		if err := dir.Chmod(0o750); err != nil {
			t.Fatal(err)
		}
		dir.Close()
	}
}

func TestSoleFileHasOneName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := CheckSole(file); err != nil {
		t.Error(err)
	}
	if err := os.Link(path, path+"2"); err != nil {
		t.Fatal(err)
	}
	if err := CheckSole(file); err == nil {
		t.Error("a file with two names is this user's alone")
	}
}
