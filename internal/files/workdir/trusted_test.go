package workdir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestNothingIsStagedWhereOthersCanWrite(t *testing.T) {
	s := newSite(t)
	s.write(s.local("train.py"), "1")
	s.must(os.Chmod(s.home, 0o777))
	check.Error(s.stage(0)).Says(t, "others can change "+s.home+" (drwxrwxrwx)")
	s.must(os.Chmod(s.home, 0o755))
	s.mustStage()
}

// TestRemovalFollowsNoLinks removes a folder while another process replaces a part of it with a
// link to the user's files.
func TestRemovalFollowsNoLinks(t *testing.T) {
	must.HaveTime(t)
	files := fstest.MapFS{"a/file": {}, "b/c/file": {}, "b/d/file": {}}
	base := t.TempDir()
	canary := t.TempDir()
	root, err := os.OpenRoot(base)
	must.OK(t, errors.Join(err, os.CopyFS(canary, files)))
	defer root.Close()
	c := &target{base: root, name: "copy"}
	path := filepath.Join(base, "copy.new/b")
	aside := filepath.Join(base, "aside")
	stop := meanwhile(func() {
		_ = os.Rename(path, aside)
		_ = os.Symlink(canary, path)
		_ = os.Remove(path)
		_ = os.Rename(aside, path)
		_ = os.RemoveAll(aside)
	})
	rounds := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); rounds++ {
		for name := range files {
			_ = root.MkdirAll(filepath.Join("copy.new", filepath.Dir(name)), 0o700)
			_ = root.WriteFile(filepath.Join("copy.new", name), nil, 0o600)
		}
		_ = c.base.RemoveAll(c.fresh(""))
	}
	stop()
	for name := range files {
		_, err := os.Stat(filepath.Join(canary, name))
		check.That(t, err == nil && rounds >= 10, "after %d rounds: %v", rounds, err)
	}
}

// A folder that becomes a link after the scan is not followed when its files are packed, or
// compared by their sums.
func TestPackingFollowsNoLinks(t *testing.T) {
	for _, parent := range []string{"sub", "sub/deeper"} {
		s := newSite(t)
		canary := t.TempDir()
		s.write(s.local("sub/deeper/file"), "mine")
		s.write(filepath.Join(canary, "file"), "text of somebody else")
		s.write(filepath.Join(canary, "deeper/file"), "text of somebody else")
		tree := s.scan()
		s.must(os.Rename(s.local(parent), s.local("aside")), os.Symlink(canary, s.local(parent)))
		sent, err := s.send(tree, 0, nil)
		check.That(t, err != nil, "with %s as a link: %+v", parent, sent)
		var packed bytes.Buffer
		sum := sha256.Sum256([]byte("another"))
		for _, wanted := range []wire.WantedFile{{Index: len(tree.Entries) - 1},
			{Index: len(tree.Entries) - 1, Sum: sum[:]}} {
			n, _, err := tree.pack(&packed, []wire.WantedFile{wanted})
			check.That(t, err != nil && n <= 0, "with %s as a link, %d files are packed: %v", parent, n, err)
		}
	}
}

// Nor is one that becomes a link during the scan, and one that is renamed is still the folder that
// was scanned.
func TestScanFollowsNoLinks(t *testing.T) {
	s := newSite(t)
	canary := t.TempDir()
	for i := range 50 {
		s.write(s.local(fmt.Sprintf("b/%d", i)), "mine")
		s.write(filepath.Join(canary, fmt.Sprintf("secret-%d", i)), "text of somebody else")
	}
	stop := meanwhile(func() {
		_ = os.Rename(s.local("b"), filepath.Join(canary, "aside"))
		_ = os.Symlink(canary, s.local("b"))
		_ = os.Remove(s.local("b"))
		_ = os.Rename(filepath.Join(canary, "aside"), s.local("b"))
	})
	for range 2000 {
		tree, err := Scan(s.dir, DefaultFiles, DefaultBytes)
		var link *LinkError
		must.That(t, err == nil || errors.As(err, &link) || errors.Is(err, fs.ErrNotExist), "%v", err)
		if err == nil && slices.ContainsFunc(tree.Entries, func(e Entry) bool {
			return strings.Contains(string(e.Path), "secret")
		}) {
			t.Fatal("a link was followed")
		}
	}
	stop()
	tree := s.scan()
	s.must(os.Rename(s.dir, s.dir+".moved"), os.Symlink(canary, s.dir))
	sent, err := s.send(tree, 0, nil)
	check.That(t, err == nil && sent.Files == 50, "%+v, %v", sent, err)
	s.must(os.Remove(s.dir), os.Rename(s.dir+".moved", s.dir))
}

// The list of what is not staged is read in bounded time and memory, whatever another user of the
// folder has put in its place.
func TestListOfWhatIsNotStagedIsBounded(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a pipe":   func(path string) error { return unix.Mkfifo(path, 0o644) },
		"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		"a folder": func(path string) error { return os.Mkdir(path, 0o755) },
		"a hole": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o644), os.Truncate(path, 1<<40))
		},
	} {
		dir := t.TempDir()
		must.OK(t, put(filepath.Join(dir, IgnoreFile)))
		check.Error(Scan(dir, DefaultFiles, DefaultBytes)).Says(t, IgnoreFile, name)
	}
}

// Folders in each other take the square of their depth: 3000 took 2 GiB.
func TestDeepFoldersAreRefused(t *testing.T) {
	dir := t.TempDir()
	at := must.Get(os.Open(dir))(t)
	for range 1500 {
		name := strings.Repeat("d", 250)
		must.OK(t, unix.Mkdirat(int(at.Fd()), name, 0o755))
		below := must.Get(openBelow(at, name, pathOnly))(t)
		at.Close()
		at = os.NewFile(uintptr(must.Get(unix.Dup(int(below.Fd())))(t)), dir) // without the long name
		below.Close()
	}
	at.Close()
	check.Error(Scan(dir, DefaultFiles, DefaultBytes)).Says(t, dir, "too deep")
}

// Each name in the paths of deep folders takes the time of an opened one, here and on the host.
func TestNamesInPathsAreBounded(t *testing.T) {
	s := newSite(t)
	s.write(s.local("a/b/c"), "")
	all := scan{Tree: s.scan(), names: MaxNames}
	check.Error(all.weigh(Entry{Path: "a/b/c", Kind: Dir})).Says(t, s.dir, "too deep folders")
	deep := make([]Entry, 3000)
	for i := range deep {
		deep[i] = Entry{Path: Name(strings.Repeat("a/", i) + "a"), Kind: Dir}
	}
	check.Error(Check(deep)).Says(t, "have more than", "names")
}

// A name took a second with a megabyte of such patterns.
func TestPatternsTakeLittleTime(t *testing.T) {
	patterns := strings.Repeat("*"+strings.Repeat("a", 120)+"b\n", 8<<10)
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, IgnoreFile), []byte(patterns), 0o600))
	check.Error(Scan(dir, DefaultFiles, DefaultBytes)).Says(t, IgnoreFile)
	list := must.Get(parseIgnore(patterns[:maxIgnore]))(t)
	s := scan{Tree: &Tree{Dir: dir}, left: list, matching: maxMatching - time.Millisecond}
	check.Error(s.leaves(strings.Repeat("a", 250), false)).Says(t, IgnoreFile, dir, "fewer or shorter")
}

// A link to another folder does not prove that a host sees the offered one.
func TestProofsFollowNoLinks(t *testing.T) {
	dir := t.TempDir()
	other := t.TempDir()
	must.OK(t, errors.Join(os.WriteFile(filepath.Join(other, "file"), nil, 0o600),
		os.Symlink(other, filepath.Join(dir, "sub"))))
	find, end := proofsIn(dir)
	defer end()
	for _, path := range []string{"sub/file", "../" + filepath.Base(other) + "/file", other + "/file"} {
		p, found := find(path)
		check.That(t, !found, "%s: %+v", path, p)
	}
	for _, path := range []string{".", "sub"} {
		_, found := find(path)
		check.That(t, found, "%s is not found", path)
	}
}

// meanwhile repeats an act beside the test until it is stopped.
func meanwhile(act func()) (stop func()) {
	stopped := make(chan struct{})
	var acting sync.WaitGroup
	acting.Go(func() {
		for {
			select {
			case <-stopped:
				return
			default:
				act()
			}
		}
	})
	return func() {
		close(stopped)
		acting.Wait()
	}
}
