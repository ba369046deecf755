package ui

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/gorun/gorun/internal/net/wire"
)

// Screen is the user's terminal.
type Screen struct {
	in, out *os.File
}

// FindScreen returns the terminal of in and out, or nil.
func FindScreen(in *os.File, out io.Writer) *Screen {
	if !IsTerminal(in) || !IsTerminal(out) {
		return nil
	}
	return &Screen{in, out.(*os.File)}
}

// IsTerminal reports whether an input or output is a terminal.
func IsTerminal(stream any) bool {
	file, is := stream.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// Terminal describes the terminal to a program that gets one like it; nil without a terminal.
func (s *Screen) Terminal() *wire.Terminal {
	if s == nil {
		return nil
	}
	rows, columns := s.Size()
	return &wire.Terminal{Rows: rows, Columns: columns, Name: s.Kind()}
}

// Kind returns the variable TERM, which describes the terminal to programs.
func (s *Screen) Kind() string {
	if kind := os.Getenv("TERM"); kind != "" {
		return kind
	}
	return "dumb"
}

// Size returns the size in characters.
func (s *Screen) Size() (rows, columns uint16) {
	c, r, err := term.GetSize(int(s.out.Fd()))
	if err != nil || r == 0 || c == 0 {
		return 24, 80
	}
	return uint16(r), uint16(c)
}

// Raw passes keys as they are typed, including Ctrl-C, and calls resized after a change of size,
// until restore is called. Lines that gorun writes still begin at the left.
func (s *Screen) Raw(resized func()) (restore func(), err error) {
	fd := int(s.in.Fd())
	old, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	if mode, err := Modes(fd); err == nil {
		mode.Oflag |= unix.OPOST
		_ = SetModes(fd, mode)
	}
	changes := make(chan os.Signal, 1)
	over := make(chan struct{})
	done := make(chan struct{})
	signal.Notify(changes, syscall.SIGWINCH)
	go func() {
		defer close(done)
		for {
			select {
			case <-changes:
				resized()
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(changes)
		close(over)
		<-done
		_ = term.Restore(fd, old)
	}, nil
}
