package trust

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A file that is not regular is not opened: a writer of a pipe would go on, and a terminal could
// become that of the process.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, os.WriteFile(in("file"), nil, 0o600))
	must.OK(t, syscall.Mkfifo(in("pipe"), 0o600))
	ptmx := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	defer ptmx.Close()
	must.OK(t, unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0))
	number := must.Get(unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN))(t)
	must.OK(t, os.Symlink("/dev/pts/"+strconv.Itoa(number), in("terminal")))
	for name, opened := range map[string]bool{"file": true, "pipe": false, "terminal": false} {
		fd := must.Get(unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC))(t)
		defer unix.Close(fd)
		must.Get(unix.InotifyAddWatch(fd, in(name), unix.IN_OPEN))(t)
		file, err := OpenRegular(in(name))
		if err == nil {
			file.Close()
		}
		check.Equal(t, err == nil, opened, name)
		n, _ := unix.Read(fd, make([]byte, unix.SizeofInotifyEvent+unix.NAME_MAX+1))
		check.Equal(t, n > 0, opened, name)
	}
}

// Another user who puts a pipe in the place of a folder makes nobody wait.
func TestNamesWaitForNoPipe(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	must.OK(t, errors.Join(os.MkdirAll(in("folder/name"), 0o700), syscall.Mkfifo(in("pipe"), 0o600)))
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range 5000 {
			for name := range Names(in("folder"), 10) {
				check.Equal(t, name, "name")
			}
		}
	}()
	for late := time.After(30 * time.Second); ; {
		select {
		case <-read:
			return
		case <-late:
			t.Fatal("Names waits for somebody who writes to the pipe")
		default:
			must.OK(t, unix.Renameat2(unix.AT_FDCWD, in("folder"), unix.AT_FDCWD, in("pipe"), unix.RENAME_EXCHANGE))
		}
	}
}
