package trust

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// A folder of PATH that another user's process serves, and in which it does not answer, is passed
// over.
func TestProgramAsksNoSilentFileSystem(t *testing.T) {
	lab.NeedRoot(t)
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		lab.Skip(t, "needs /dev/fuse")
	}
	dir := folder(t)
	silent := filepath.Join(dir, "silent")
	tool := filepath.Join(dir, "bin/tool")
	must.OK(t, os.Mkdir(silent, 0o755))
	must.OK(t, os.Mkdir(filepath.Dir(tool), 0o755))
	must.OK(t, os.WriteFile(tool, nil, 0o755))
	must.OK(t, unix.Mount("silent", silent, "fuse.silent", unix.MS_NOSUID|unix.MS_NODEV,
		fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", device, stranger, stranger)))
	t.Cleanup(func() { check.OK(t, unix.Unmount(silent, unix.MNT_DETACH)) })
	late := time.AfterFunc(30*time.Second, func() { unix.Close(device) }) // which ends what waits for an answer
	path := silent + ":" + filepath.Dir(tool)
	found, err := Program("tool", path)
	check.That(t, err == nil && found == tool, "%q, %v", found, err)
	_, err = Program("none", path)
	check.Error(err).As(t, new(*Error))
	_, err = Program("none", filepath.Dir(tool))
	check.Error(err).Is(t, fs.ErrNotExist)
	check.Error(CheckOptional(filepath.Join(silent, "file"))).As(t, new(*Error))
	check.That(t, late.Stop(), "it was asked")
	unix.Close(device)
}
