package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	xssh "golang.org/x/crypto/ssh"
)

// ways are the two ways a file can take.
var ways = map[string]func(*server){
	"sftp":  func(s *server) { s.maxSessions = 1 },
	"shell": func(s *server) { s.maxSessions = 1; s.noSFTP = true },
	"noise": func(s *server) { s.maxSessions = 1; s.sftpNoise = "Welcome to this host!\n" },
}

func TestPut(t *testing.T) {
	content := make([]byte, 3<<20+17)
	source := rand.NewChaCha8([32]byte{1})
	source.Read(content)
	for way, option := range ways {
		t.Run(way, func(t *testing.T) {
			s, files := newServer(t, option)
			c := dialTest(t, files)
			for _, name := range []string{"top", "a/b/it's a file", "-dash", filepath.Join(s.home, "absolute"),
				"a/b/../c"} {
				must.OK(t, c.Put(t.Context(), name, 0o750, bytes.NewReader(content)), name)
				path := name
				if !filepath.IsAbs(path) {
					path = filepath.Join(s.home, name)
				}
				got, err := os.ReadFile(path)
				check.That(t, err == nil && bytes.Equal(got, content),
					"%s: %d bytes arrived, want %d: %v", name, len(got), len(content), err)
				info, err := os.Stat(path)
				check.That(t, err == nil && info.Mode().Perm() == 0o750, "%s: %v, %v", name, info.Mode(), err)
			}
			info, err := os.Stat(filepath.Join(s.home, "a"))
			check.That(t, err == nil && info.Mode().Perm() == 0o700, "new directory: %v, %v", info.Mode(), err)
			// The one session that is allowed must be free again.
			check.OK(t, c.Run(t.Context(), []string{"true"}, nil, nil, nil))
			assertNoTemp(t, s.home)
		})
	}
}

func TestPutReplaces(t *testing.T) {
	for way, option := range ways {
		t.Run(way, func(t *testing.T) {
			s, files := newServer(t, option)
			c := dialTest(t, files)
			path := filepath.Join(s.home, "f")
			writeFile(t, path, "a longer old text")
			old := must.Get(os.Open(path))(t)
			defer old.Close()
			must.OK(t, c.Put(t.Context(), "f", 0o600, strings.NewReader("new")))
			text, _ := os.ReadFile(path)
			check.Equal(t, string(text), "new", "the file holds")
			if text, _ := io.ReadAll(old); string(text) != "a longer old text" {
				t.Errorf("who had the old file open reads %q", text)
			}
		})
	}
}

func TestPutFailsWhole(t *testing.T) {
	for way, option := range ways {
		t.Run(way, func(t *testing.T) {
			s, files := newServer(t, option)
			c := dialTest(t, files)
			broken := errors.New("source went away")
			err := c.Put(t.Context(), "f", 0o600, io.MultiReader(strings.NewReader("half"), brokenReader{broken}))
			check.That(t, err != nil, "no error for a broken source")
			check.Error(os.Stat(filepath.Join(s.home, "f"))).Any(t, "half a file appeared")
			assertNoTemp(t, s.home)

			writeFile(t, filepath.Join(s.home, "file"), "")
			os.Mkdir(filepath.Join(s.home, "dir"), 0o755)
			for _, name := range []string{"file/below", "dir", "", "x/", "nul\x00"} {
				err := c.Put(t.Context(), name, 0o600, strings.NewReader("x"))
				check.That(t, err != nil && strings.Contains(err.Error(), "h (127.0.0.1:"), "Put to %q: %v", name, err)
			}
			list, _ := os.ReadDir(filepath.Join(s.home, "dir"))
			check.That(t, len(list) == 0, "the file went into the directory of its name: %v", list)
			assertNoTemp(t, s.home)
		})
	}
}

// assertNoTemp fails when a temporary file is left.
func assertNoTemp(t *testing.T, home string) {
	t.Helper()
	filepath.WalkDir(home, func(path string, d os.DirEntry, err error) error {
		check.That(t, !strings.HasPrefix(filepath.Base(path), "."), "%s is left", path)
		return nil
	})
}

func TestPutNoticesLostBytes(t *testing.T) {
	// A start file eats part of stdin, and prints.
	_, files := newServer(t, func(s *server) {
		s.noSFTP = true
		s.exec = func(gone context.Context, ch xssh.Channel, cmd string) {
			s.shell(gone, ch, "echo welcome; head -c 3 >/dev/null; "+cmd)
		}
	})
	c := dialTest(t, files)
	err := c.Put(t.Context(), "f", 0o600, strings.NewReader(strings.Repeat("x", 100000)))
	check.That(t, err != nil && strings.Contains(err.Error(), "100000 bytes were sent"), "err is %v", err)
}

func TestPutEndsWithContext(t *testing.T) {
	for way, option := range ways {
		t.Run(way, func(t *testing.T) {
			_, files := newServer(t, option)
			c := dialTest(t, files)
			ctx, cancel := context.WithCancel(t.Context())
			endless := readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
			within(t, hangLimit, "Put", func() {
				err := c.Put(ctx, "f", 0o600, endless)
				check.That(t, errors.Is(err, context.Canceled), "err is %v", err)
			})
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
