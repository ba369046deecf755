package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

func TestRunBringsTheWorkFolderBeforeTheJob(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(t.TempDir(), "old")
	must.OK(t, os.WriteFile(filepath.Join(dir, "train.py"), []byte("1"), 0o644))
	work, err := ScanWorkDir(dir, 10, 1000)
	must.OK(t, err)
	// the host sees another folder
	must.OK(t, errors.Join(os.Rename(dir, old), os.CopyFS(dir, os.DirFS(old))))
	home := t.TempDir()
	m := &fake.Machine{Serve: func(a *fake.Agent) error {
		first, err := a.Expect(wire.TypeFolder)
		if err == nil {
			err = workdir.Receive(a.Ctx, first.Payload, a.Frames.Next, a.Out, home)
		}
		if err = errors.Join(err, a.Ready()); err != nil {
			return err
		}
		if wdir := string(a.Job.Programs[0].Wdir); !strings.HasPrefix(wdir, home) {
			t.Errorf("ranks start in %s", wdir)
		}
		return succeed(a)
	}}
	r, err := runOn(t, []*fake.Machine{m}, func(o *Options) {
		o.Work = work
		o.Programs[0].Wdir = wire.Text(dir)
	})
	check.That(t, err == nil && r.Code() == 0, "%+v, %v", r, err)
}
