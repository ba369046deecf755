package workdir

import (
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// pathOnly opens a file, folder or link for its attributes alone.
const pathOnly = unix.O_PATH

func openFlags(flags int) int { return flags }

// changeTime returns when an inode was last changed, in nanoseconds.
func changeTime(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }

// readLink returns the target of a link that was opened with pathOnly.
func readLink(link *os.File) (string, error) {
	defer runtime.KeepAlive(link)
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(link.Fd()), "", target)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: link.Name(), Err: err}
	}
	return string(target[:n]), nil
}
