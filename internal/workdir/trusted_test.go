package workdir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"
)

func TestNothingIsStagedWhereOthersCanWrite(t *testing.T) {
	s := newSite(t)
	s.write(s.local("train.py"), "1")
	s.must(os.Chmod(s.home, 0o777))
	if _, err := s.stage(0); err == nil || !strings.Contains(err.Error(), "others can change "+s.home+" (drwxrwxrwx)") {
		t.Errorf("%v", err)
	}
	s.must(os.Chmod(s.home, 0o755))
	s.mustStage()
}

// TestRemovalFollowsNoLinks removes a folder while another process replaces a part of it with a link to the user's files.
func TestRemovalFollowsNoLinks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	files := fstest.MapFS{"a/file": {}, "b/c/file": {}, "b/d/file": {}}
	base, canary := t.TempDir(), t.TempDir()
	root, err := os.OpenRoot(base)
	if err := errors.Join(err, os.CopyFS(canary, files)); err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	c := &target{base: root, name: "copy"}
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		path, aside := filepath.Join(base, "copy.new/b"), filepath.Join(base, "aside")
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
	rounds := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); rounds++ {
		for name := range files {
			_ = root.MkdirAll(filepath.Join("copy.new", filepath.Dir(name)), 0o700)
			_ = root.WriteFile(filepath.Join("copy.new", name), nil, 0o600)
		}
		_ = c.base.RemoveAll(c.fresh(""))
	}
	close(stop)
	swapping.Wait()
	for name := range files {
		if _, err := os.Stat(filepath.Join(canary, name)); err != nil || rounds < 10 {
			t.Errorf("after %d rounds: %v", rounds, err)
		}
	}
}
