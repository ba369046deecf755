package ui

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// input is the standard input for the ranks. Close ends a Read. While gorun is in the background of
// a terminal, Read waits, because reading would stop gorun by SIGTTIN.
type input struct {
	file *os.File
	wake [2]*os.File // a pipe: closing the writer ends a waiting Read
}

func NewInput(file *os.File) (*input, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &input{file, [2]*os.File{r, w}}, nil
}

// Close ends a pending Read and all later ones.
func (in *input) Close() { in.wake[1].Close() }

func (in *input) Read(p []byte) (int, error) {
	for {
		set := []unix.PollFd{{Fd: int32(in.wake[0].Fd()), Events: unix.POLLIN},
			{Fd: int32(in.file.Fd()), Events: unix.POLLIN}}
		wait := -1
		if !in.foreground() {
			set = set[:1]
			wait = 500 // milliseconds until the next check
		}
		_, err := unix.Poll(set, wait)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case set[0].Revents != 0:
			return 0, io.EOF
		case len(set) == 2 && set[1].Revents != 0:
			n, err := syscall.Read(int(in.file.Fd()), p)
			switch {
			case err == syscall.EAGAIN || err == syscall.EINTR:
				continue
			case err != nil:
				return 0, err
			case n <= 0:
				return 0, io.EOF
			}
			return n, nil
		}
	}
}

// foreground reports whether gorun may read the input now.
func (in *input) foreground() bool {
	fd := int(in.file.Fd())
	if !term.IsTerminal(fd) {
		return true
	}
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
