// Package terminal makes pseudoterminals, as pty(7) describes them.
package terminal

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Terminal is a pseudoterminal. The caller closes both files.
type Terminal struct {
	Master *os.File // takes deadlines
	Slave  *os.File // for the files 0, 1 and 2 of a process
	raw    syscall.RawConn
}

// Open makes a pseudoterminal.
func Open() (*Terminal, error) {
	t, err := open()
	if err != nil {
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	return t, nil
}

func open() (t *Terminal, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	t = &Terminal{Master: os.NewFile(uintptr(fd), "/dev/ptmx")}
	defer func() {
		if err != nil {
			t.Master.Close()
			t.Slave.Close() // nil before it is open
		}
	}()
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	if t.Slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, err
	}
	t.raw, err = t.Master.SyscallConn() // Fd would make reads block
	return t, err
}

// Resize sets the size. A terminal that was closed has none.
func (t *Terminal) Resize(rows, columns uint16) {
	_ = t.raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	})
}

// Unread reports whether the master has output to read.
func (t *Terminal) Unread() bool {
	n := 0
	_ = t.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return n > 0
}
