package session

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// newWork makes a folder that has changed on disk since it was scanned: a host that sees it takes
// it for another one.
func newWork(t *testing.T, content []byte) (dir string, w *Work) {
	t.Helper()
	dir = t.TempDir()
	must.OK(t, errors.Join(os.Mkdir(filepath.Join(dir, "sub"), 0o755),
		os.WriteFile(filepath.Join(dir, "sub/f"), content, 0o644)))
	tree, err := workdir.ScanFolders(dir, 10, 1<<20)
	must.OK(t, err)
	w, err = NewWork(tree, nil, func(wire.Hello) []netip.Addr {
		return nil
	}, []wire.Program{{Wdir: wire.Text(filepath.Join(dir, "sub"))}}, func(s string) { t.Error(s) }, t.Logf,
		relay.NoMeter{})
	must.OK(t, err)
	old := filepath.Join(t.TempDir(), "old")
	must.OK(t, errors.Join(os.Rename(dir, old), os.CopyFS(dir, os.DirFS(old))))
	return dir, w
}

// copyTo brings work to a host with the given agent.
func copyTo(ctx context.Context, t *testing.T, w *Work, serve func(a *fake.Agent) error) error {
	t.Helper()
	m := &fake.Machine{Disk: fake.NewDisk(map[string]string{"/gorun": "build one"}), Serve: serve}
	s := must.Get(openAt(ctx, m, "/gorun"))(t)
	defer s.Close()
	return w.CopyTo(ctx, 0, s)
}

func TestWorkIsBrought(t *testing.T) {
	lost := errors.New("connection lost")
	broken := errors.New("the disk is full")
	for name, tc := range map[string]struct {
		after int   // frames that the agent reads before it ends
		end   error // how it then ends; nil: it reads them all
		want  string
	}{
		"whole":               {0, nil, ""},
		"lost at once":        {1, lost, "lost the connection to the agent: connection lost"},
		"lost in the files":   {5, lost, "lost the connection to the agent: connection lost"},
		"agent killed":        {1, fake.ExitStatus(137), "the agent was killed or failed (exit code 137)"},
		"error before files":  {1, broken, "the disk is full"},
		"error between files": {5, broken, "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := make([]byte, 900_000) // many frames, more than are queued: it does not compress
			rand.Read(content)
			dir, w := newWork(t, content)
			home := t.TempDir()
			err := copyTo(t.Context(), t, w, func(a *fake.Agent) error {
				count := 0
				next := func() (wire.Frame, error) {
					if count++; count > tc.after && tc.end != nil {
						return wire.Frame{}, tc.end
					}
					f, err := a.Frames.Next()
					for err == nil && f.Type == wire.TypeHeartbeat { // as an agent does
						f, err = a.Frames.Next()
					}
					return f, err
				}
				first, err := a.Expect(wire.TypeFolder)
				count++
				if err != nil {
					return err
				}
				if err := workdir.Receive(a.Ctx, first.Payload, next, a.Out, home); errors.Is(err, broken) {
					_ = a.Out.SendMessage(wire.TypeRefuse, wire.Refuse{Code: 125, What: broken.Error()})
				} else if err != nil {
					return tc.end
				}
				return a.UntilEOF()
			})
			if tc.want != "" {
				var refused *RefusedError // with which an elastic job would end
				check.That(t, err != nil && err.Error() == "stage "+dir+": "+tc.want && !errors.As(err, &refused),
					"%v, want %q", err, tc.want)
				return
			}
			placed := []wire.Program{{Wdir: wire.Text(filepath.Join(dir, "sub"))}}
			w.Place(0, placed)
			there := string(placed[0].Wdir)
			text, missing := os.ReadFile(filepath.Join(there, "f"))
			err = errors.Join(err, missing)
			check.That(t, err == nil && bytes.Equal(text, content) && strings.HasPrefix(there, home),
				"%d bytes in %s: %v", len(text), there, err)
		})
	}
}

// TestWorkEndsWithItsContext checks both an agent that does not answer and one that does not read.
func TestWorkEndsWithItsContext(t *testing.T) {
	why := errors.New("not wanted any more")
	for name, serve := range map[string]func(a *fake.Agent) error{
		"silent": func(a *fake.Agent) error { return a.UntilEOF() },
		"deaf": func(a *fake.Agent) error {
			_ = a.Out.SendMessage(wire.TypeWant, wire.Want{Files: []wire.WantedFile{{Index: 1}}})
			_ = a.Out.SendMessage(wire.TypeOffered, wire.Offered{})
			_ = a.Out.SendMessage(wire.TypePassed, wire.Passed{Feed: true, From: -1})
			<-a.Ctx.Done()
			return a.Ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := make([]byte, 1<<20)
			rand.Read(content)
			_, w := newWork(t, content)
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second/2, why)
			defer cancel()
			err := copyTo(ctx, t, w, serve)
			check.That(t, errors.Is(err, why), "%v, want %v", err, why)
		})
	}
}
