package workdir

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestSafe(t *testing.T) {
	for _, tc := range []struct {
		mode         fs.FileMode
		owner, group uint32
		want         bool
	}{
		{fs.ModeDir | 0o755, 0, 0, true}, {fs.ModeDir | 0o700, 7, 9, true}, {fs.ModeDir | 0o775, 7, 7, true}, {fs.ModeDir | fs.ModeSticky | 0o777, 0, 0, true},
		{fs.ModeDir | 0o775, 7, 9, false}, {fs.ModeDir | 0o757, 7, 7, false}, {fs.ModeDir | 0o755, 8, 8, false}, {fs.ModeDir | fs.ModeSticky | 0o777, 8, 0, false},
		{fs.ModeSymlink | 0o755, 7, 7, false}, {0o700, 7, 7, false},
	} {
		if got := safe(tc.mode, tc.owner, tc.group, 7); got != tc.want {
			t.Errorf("%v of %d:%d: %v", tc.mode, tc.owner, tc.group, got)
		}
	}
}

func TestNothingIsStagedWhereOthersCanWrite(t *testing.T) {
	s := newSite(t)
	s.write(s.local("train.py"), "1")
	if err := os.Chmod(s.home, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := s.stage(0); err == nil || !strings.Contains(err.Error(), "others can change "+s.home+" (drwxrwxrwx)") {
		t.Errorf("%v", err)
	}
	if err := os.Chmod(s.home, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := s.stage(0); err != nil {
		t.Error(err)
	}
}

// What is removed is what gorun has made, whatever is put in its place meanwhile.
func TestRemovalFollowsNoLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	base, canary := t.TempDir(), t.TempDir()
	fill := func(dir string) {
		t.Helper()
		for _, sub := range []string{"a", "b/c", "b/d"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, sub, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(canary)
	root, err := os.OpenRoot(base)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	c := &target{base: root, name: "copy"}
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	// One place only: through a link in its parent, the swapping itself would reach the canary.
	for _, victim := range []string{"copy.new/b"} {
		swapping.Go(func() {
			path, aside := filepath.Join(base, victim), filepath.Join(base, "aside-"+filepath.Base(victim))
			for {
				select {
				case <-stop:
					return
				default:
				}
				_ = os.Rename(path, aside)
				_ = os.Symlink(canary, path)
				_ = os.Remove(path)
				_ = os.Rename(aside, path)
				_ = os.RemoveAll(aside)
			}
		})
	}
	rounds := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); rounds++ {
		for _, sub := range []string{"a", "b/c", "b/d"} {
			_ = root.MkdirAll(filepath.Join("copy.new", sub), 0o700)
			_ = root.WriteFile(filepath.Join("copy.new", sub, "file"), nil, 0o600)
		}
		_ = c.base.RemoveAll(c.fresh(""))
	}
	close(stop)
	swapping.Wait()
	t.Logf("%d rounds", rounds)
	left := 0
	_ = filepath.WalkDir(canary, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			left++
		}
		return nil
	})
	if left != 3 || rounds < 10 {
		t.Errorf("%d of 3 files that gorun has not made are left, after %d rounds", left, rounds)
	}
}
