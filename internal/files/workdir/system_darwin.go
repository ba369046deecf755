package workdir

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// pathOnly opens a file, folder or link for its attributes. The user must be able to read it.
const pathOnly = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_SYMLINK

// openFlags removes O_NOFOLLOW where O_SYMLINK opens the link itself.
func openFlags(flags int) int {
	if flags&unix.O_SYMLINK != 0 {
		flags &^= unix.O_NOFOLLOW
	}
	return flags
}

// changeTime returns when an inode was last changed, in nanoseconds.
func changeTime(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }

// readLink returns the target of a link that was opened with pathOnly. It reads the link by its
// path, which another user could have exchanged meanwhile: the target is checked before it is used.
func readLink(link *os.File) (string, error) { return os.Readlink(link.Name()) }
