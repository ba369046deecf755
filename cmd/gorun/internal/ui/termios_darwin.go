package ui

import "golang.org/x/sys/unix"

// Modes returns the modes of a terminal.
func Modes(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, unix.TIOCGETA) }

// SetModes sets the modes of a terminal at once.
func SetModes(fd int, m *unix.Termios) error { return unix.IoctlSetTermios(fd, unix.TIOCSETA, m) }
