package job

import (
	"os"

	"golang.org/x/sys/unix"
)

// replace makes fd another descriptor of an open file.
func replace(fd int, by *os.File) error { return unix.Dup3(int(by.Fd()), fd, 0) }

// enlarge makes room for 1 MiB in a pipe.
func enlarge(pipe *os.File) { _, _ = unix.FcntlInt(pipe.Fd(), unix.F_SETPIPE_SZ, 1<<20) }
