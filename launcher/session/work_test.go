package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/workdir"
	"github.com/gorun/gorun/launcher/plan"
)

// stagingHost runs the host's half of staging in a home of its own. It does not see the folder.
type stagingHost struct {
	home  string
	paths map[string]string // where gorun is, and its build
	noise string
	// cut, if set, ends the command after some bytes of its stdin.
	cut   error
	after int64
	hang  bool // it says nothing
}

func (h *stagingHost) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	argv = fake.StartedCommand(argv)
	build, found := h.paths[argv[0]]
	if !found {
		fmt.Fprintln(stderr, "not found")
		return fake.ExitStatus(127)
	}
	if h.hang {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	_, _ = io.WriteString(stdout, h.noise)
	if h.cut != nil {
		stdin = io.LimitReader(stdin, h.after)
		// What is cut off says nothing more.
		_ = workdir.Serve(stdin, mute{stdout}, workdir.Options{Nonce: argv[2], Build: build, Home: h.home})
		return h.cut
	}
	if err := workdir.Serve(stdin, stdout, workdir.Options{Nonce: argv[2], Build: build, Home: h.home}); err != nil {
		return fake.ExitStatus(125)
	}
	return nil
}

func (h *stagingHost) Put(context.Context, string, fs.FileMode, io.Reader) error {
	return errors.New("nobody should upload")
}

func (h *stagingHost) Close() error { return nil }

// mute passes on everything but errors.
type mute struct{ to io.Writer }

func (m mute) Write(p []byte) (int, error) {
	if strings.HasPrefix(string(p), `{"error"`) {
		return len(p), nil
	}
	return m.to.Write(p)
}

func TestWorkIsBrought(t *testing.T) {
	exe := executable()
	here, cached := map[string]string{exe.Path: "one"}, map[string]string{exe.Path: "two", fake.CachedPath: "one"}
	lost := errors.New("connection lost")
	for name, tc := range map[string]struct {
		host stagingHost
		want string // in the error; "": it goes well
	}{
		"by gorun's own path":     {stagingHost{paths: here}, ""},
		"by the cache":            {stagingHost{paths: cached}, ""},
		"behind noise":            {stagingHost{paths: here, noise: "welcome\n"}, ""},
		"connection lost at once": {stagingHost{paths: here, cut: lost, after: 10}, ": connection lost"},
		"command killed":          {stagingHost{paths: here, cut: fake.ExitStatus(137), after: 10}, ": exit status 137"},
		"cut in the transfer":     {stagingHost{paths: here, cut: lost, after: 20_000}, ": connection lost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			content := make([]byte, 40_000) // it does not shrink
			rand.Read(content)
			if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "sub/f"), content, 0o644); err != nil {
				t.Fatal(err)
			}
			tree, err := workdir.Scan(dir, 10, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			w, err := NewWork(tree, []plan.Program{{Wdir: filepath.Join(dir, "sub")}}, stagerOf(exe), func(s string) { t.Error(s) })
			if err != nil {
				t.Fatal(err)
			}
			// The host sees another folder of that name.
			old := filepath.Join(t.TempDir(), "old")
			if err := errors.Join(os.Rename(dir, old), os.CopyFS(dir, os.DirFS(old))); err != nil {
				t.Fatal(err)
			}
			tc.host.home = t.TempDir()
			err = w.CopyTo(t.Context(), 0, "f1", &tc.host)
			if tc.want != "" {
				if err == nil || !strings.HasPrefix(err.Error(), "stage "+dir) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v, want %q", err, tc.want)
				}
				return
			}
			there := w.Dir(0, filepath.Join(dir, "sub"))
			text, missing := os.ReadFile(filepath.Join(there, "f"))
			if err = errors.Join(err, missing); err != nil || !bytes.Equal(text, content) || !strings.HasPrefix(there, tc.host.home) {
				t.Errorf("%d bytes in %s: %v", len(text), there, err)
			}
		})
	}
}

func TestWorkOnASilentHost(t *testing.T) {
	why := errors.New("not wanted any more")
	for limit, want := range map[time.Duration]string{time.Second: why.Error(), time.Hour: "no answer within 10s"} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			exe := executable()
			tree, err := workdir.Scan(dir, 10, 10)
			if err != nil {
				t.Fatal(err)
			}
			w, err := NewWork(tree, []plan.Program{{Wdir: tree.Dir}}, stagerOf(exe), nil)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeoutCause(t.Context(), limit, why)
			defer cancel()
			silent := &stagingHost{paths: map[string]string{exe.Path: "one"}, hang: true}
			if err := w.CopyTo(ctx, 0, "f1", silent); err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
