package errand

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is a pseudoterminal, as pty(7) describes them. The caller closes both files.
type terminal struct {
	master *os.File // the agent's end, which takes deadlines
	slave  *os.File // the process's files 0, 1 and 2
	raw    syscall.RawConn
}

func newTerminal() (t *terminal, err error) {
	t = &terminal{}
	defer func() {
		if err != nil {
			t.master.Close() // nil before it is open
			t.slave.Close()
			err = fmt.Errorf("make a terminal: %w", err)
		}
	}()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return t, err
	}
	t.master = os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return t, err
	}
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return t, err
	}
	if t.slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return t, err
	}
	t.raw, err = t.master.SyscallConn() // Fd would make reads block
	return t, err
}

// resize sets the size. A terminal that was closed has none.
func (t *terminal) resize(rows, columns uint16) {
	_ = t.raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
}

// unread reports whether the master has output to read.
func (t *terminal) unread() bool {
	n := 0
	_ = t.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n > 0
}
