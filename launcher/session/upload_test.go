package session

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// inHome is this machine with another home directory. It counts sent bytes.
type inHome struct {
	Local
	home string
	path string
	sent *atomic.Int64
}

func (h inHome) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	argv = append([]string{"/usr/bin/env", "HOME=" + h.home, "PATH=" + h.path}, argv...)
	return h.Local.Run(ctx, argv, counting{stdin, h.sent}, stdout, stderr)
}

func (inHome) Put(context.Context, string, fs.FileMode, io.Reader) error {
	return errors.New("the script has failed")
}

type counting struct {
	from io.Reader
	n    *atomic.Int64
}

func (c counting) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func TestUploadScript(t *testing.T) {
	packed := must.Get(packText())(t)
	homes := []string{t.TempDir(), t.TempDir()}
	const name = ".cache/gorun/0123/gorun"
	must.OK(t, os.MkdirAll(filepath.Join(homes[1], ".cache/gorun/0123"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(homes[1], name), []byte("an old one"), 0o700))
	for round := 1; round <= 2; round++ {
		u := newUploads(executable(), t.Logf, relay.NoMeter{})
		u.packed = packText
		var sent atomic.Int64
		var hosts sync.WaitGroup
		for i := range 6 {
			hosts.Go(func() {
				if err := u.upload(t.Context(), inHome{home: homes[i%2], path: os.Getenv("PATH"), sent: &sent},
					name); err != nil {
					t.Error(err)
				}
			})
		}
		hosts.Wait()
		if want := int64(2 * len(packed)); sent.Load() != want {
			t.Errorf("round %d: %d bytes were sent to two homes, want %d", round, sent.Load(), want)
		}
		for _, home := range homes {
			text, err := os.ReadFile(filepath.Join(home, name))
			check.That(t, err == nil && string(text) == "gorun itself", "%q has arrived: %v", text, err)
			if list, _ := os.ReadDir(filepath.Dir(filepath.Join(home, name))); len(list) != 2 { // checked, gorun
				t.Errorf("left: %v", list)
			}
		}
	}
}

// fullHost is a host that says of the same folder, whenever it is asked, that it is full.
type fullHost struct {
	Local
	asked *int
}

type exited int

func (e exited) Error() string { return "it has ended" }
func (e exited) ExitCode() int { return int(e) }

func (h fullHost) Run(context.Context, []string, io.Reader, io.Writer, io.Writer) error {
	if *h.asked++; *h.asked > 2 {
		return errors.New("it is asked again")
	}
	return exited(codeFull + 1)
}

func (fullHost) Put(context.Context, string, fs.FileMode, io.Reader) error {
	return errors.New("it was tried otherwise")
}

// A host cannot keep an upload going, and what is kept of its texts growing, by one full folder.
func TestFullFolderIsSkippedOnce(t *testing.T) {
	u := newUploads(executable(), t.Logf, relay.NoMeter{})
	u.packed = packText
	asked := 0
	err := u.upload(t.Context(), fullHost{asked: &asked}, ".cache/gorun/0123/gorun")
	check.That(t, err != nil && strings.HasSuffix(err.Error(), "it was tried otherwise"), "%v", err)
	check.Equal(t, asked, 2)
}

// counted is a meter that adds up what it hears.
type counted struct{ expected, came int64 }

func (c *counted) Expect(bytes int64) { c.expected += bytes }
func (c *counted) Add(bytes int64)    { c.came += bytes }

// shortWriter takes so many bytes.
type shortWriter int

func (w *shortWriter) Write(p []byte) (int, error) {
	if n := int(*w); len(p) > n {
		*w = 0
		return n, io.ErrShortWrite
	}
	*w -= shortWriter(len(p))
	return len(p), nil
}

// A meter hears of all bytes of an upload, and of no others once one has failed.
func TestMeterHearsOfUploads(t *testing.T) {
	packed := make([]byte, 3*meterPart+7)
	for room, want := range map[int]counted{
		len(packed):   {int64(len(packed)), int64(len(packed))},
		meterPart + 5: {meterPart + 5, meterPart + 5},
		0:             {0, 0},
	} {
		var heard counted
		to := shortWriter(room)
		_, err := newUploads(Executable{Build: "b"}, t.Logf, &heard).feed(&to, packed)
		check.That(t, (err == nil) == (room == len(packed)), "room %d: %v", room, err)
		check.Equal(t, heard, want, "room", room)
	}
}
