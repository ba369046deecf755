package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/gorun/gorun/internal/cli/exitcode"
	"github.com/gorun/gorun/internal/cli/ui"
	"github.com/gorun/gorun/internal/control"
	"github.com/gorun/gorun/internal/wire"
)

// Exec runs a command where a rank of a job runs, and returns its exit code. The command has a terminal if in and out are one.
func Exec(ctx context.Context, place control.Place, name string, what control.Exec, in *os.File, out, errs io.Writer, console *ui.UI) (code int, err error) {
	f, err := running(ctx, place, name)
	if err != nil {
		return 0, err
	}
	size := terminal(in, out)
	what.Terminal = size
	conn, frames, err := f.Client.Exec(ctx, what)
	if err != nil {
		return 0, fmt.Errorf("run a command in job %s: %w", f.ID, err)
	}
	defer conn.Close()
	var mu sync.Mutex // of conn
	send := func(kind byte, data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return control.WriteFrame(conn, kind, data)
	}
	if size != nil {
		old, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return 0, fmt.Errorf("set up the terminal: %w", err)
		}
		defer func() { _ = term.Restore(int(in.Fd()), old) }()
		resized := make(chan os.Signal, 1)
		signal.Notify(resized, syscall.SIGWINCH)
		defer func() { signal.Stop(resized); close(resized) }()
		go func() {
			for range resized {
				if now := terminal(in, out); now != nil {
					text, _ := json.Marshal(now)
					_ = send(control.FrameSize, text)
				}
			}
		}()
	}
	go feed(in, send) // a read of a terminal ends with the process
	return present(frames, out, errs, console)
}

// terminal describes the terminal, or is nil if there is none.
func terminal(in *os.File, out io.Writer) *control.Terminal {
	screen, is := out.(*os.File)
	if in == nil || !is || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(screen.Fd())) {
		return nil
	}
	columns, rows, err := term.GetSize(int(screen.Fd()))
	if err != nil {
		columns, rows = 80, 24
	}
	return &control.Terminal{Rows: uint16(rows), Columns: uint16(columns), Name: os.Getenv("TERM")}
}

// feed sends standard input, and its end.
func feed(in io.Reader, send func(kind byte, data []byte) error) {
	buf := make([]byte, 16<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 && send(control.FrameIn, buf[:n]) != nil {
			return
		}
		if err != nil {
			_ = send(control.FrameIn, nil)
			return
		}
	}
}

// present prints the output of a command and returns its exit code.
func present(frames io.Reader, out, errs io.Writer, console *ui.UI) (code int, err error) {
	for {
		kind, data, err := control.ReadFrame(frames)
		if err != nil {
			return exitcode.Launch, errors.New("the job has ended, and the command with it")
		}
		switch kind {
		case control.FrameOut:
			_, err = out.Write(data)
		case control.FrameErr:
			_, err = errs.Write(data)
		case control.FrameEnd:
			var end wire.ErrandEnd
			if err := json.Unmarshal(data, &end); err != nil {
				return exitcode.Launch, err
			}
			if end.Error != "" {
				console.Errorf("%s", end.Error)
				return max(end.Code, 1), nil
			}
			return end.Code, nil
		}
		if err != nil {
			return exitcode.Launch, fmt.Errorf("write the command's output: %w", err)
		}
	}
}
