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
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return t, err
	}
	if t.slave, err = openSlave(fd); err != nil {
		return t, err
	}
	t.raw, err = t.master.SyscallConn() // Fd would make reads block
	return t, err
}

// openSlave opens the other end. Its path, which only old kernels need, leads to a terminal of
// somebody else where /dev/pts is not the file system of /dev/ptmx.
func openSlave(master int) (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags)
	switch errno {
	case 0:
		return os.NewFile(fd, "/dev/pts"), nil
	case unix.ENOTTY, unix.EINVAL: // not known
	default:
		return nil, errno
	}
	number, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	return os.OpenFile("/dev/pts/"+strconv.Itoa(number), flags, 0)
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
