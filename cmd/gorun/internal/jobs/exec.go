package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
)

// Exec runs a command in the place of a rank, and returns its exit code. The command has a terminal
// if in and out are a terminal.
func Exec(ctx context.Context, place control.Place, name string, request control.Exec, in *os.File, out, errs io.Writer,
	console *ui.UI) (code int, err error) {
	return converse(ctx, place, name, request, in, out, errs, console, func() {})
}

// Terminal connects in and out with the terminal of a rank. It returns at the first key after the
// rank's end, or when the job's gorun ends.
func Terminal(ctx context.Context, place control.Place, name string, rank int, in *os.File, out io.Writer,
	console *ui.UI) (code int, err error) {
	if rank < 0 {
		return 0, usage.Errorf("name a rank that has a terminal: --terminal 0", "--terminal %d: there is no such rank",
			rank)
	}
	return converse(ctx, place, name, control.Exec{Rank: rank}, in, out, out, console, func() {
		console.Notef("rank %d has ended; press any key", rank)
	})
}

// converse carries a command's input and output to its end and calls ended. It then waits for the
// end of the input if in is a terminal.
func converse(ctx context.Context, place control.Place, name string, request control.Exec, in *os.File, out,
	errs io.Writer, console *ui.UI, ended func()) (code int, err error) {
	f, err := running(ctx, place, name)
	if err != nil {
		return 0, err
	}
	if _, err := hostOf(f.Job, request); err != nil {
		return 0, err
	}
	screen := ui.FindScreen(in, out)
	request.Terminal = screen.Terminal()
	conn, answers, err := f.Client.Exec(ctx, request)
	if err != nil {
		return 0, fmt.Errorf("run a command in job %s: %w", f.ID, err)
	}
	defer conn.Close()
	to := frames.NewWriter(conn)
	if screen != nil {
		restore, err := screen.Raw(func() { _ = to.SendJSON(frames.Size, screen.Terminal()) })
		if err != nil {
			return 0, fmt.Errorf("set up the terminal: %w", err)
		}
		defer restore()
	}
	fed := make(chan struct{})
	go func() { // a read of a terminal ends with the process
		defer close(fed)
		feed(to, in)
	}()
	code, err = present(answers, out, errs, console)
	if len(request.Argv) == 0 && screen != nil {
		conn.Close()
		ended()
		awaitKey(ctx, f.Client, fed)
	}
	return code, err
}

// awaitKey waits for a key, or for the end of the job's gorun.
func awaitKey(ctx context.Context, job *control.Client, key <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = job.Wait(ctx)
	}()
	select {
	case <-key:
	case <-over:
	}
	cancel()
	<-over
}

// feed sends an input and its end, also if reading fails.
func feed(to *frames.Writer, in io.Reader) {
	if to.Feed(in) != nil {
		_ = to.Send(frames.In, nil)
	}
}

// present prints the output of a command and returns its exit code.
func present(answers io.Reader, out, errs io.Writer, console *ui.UI) (code int, err error) {
	var end wire.ErrandEnd
	var unwritten *frames.WriteError
	switch err := frames.Output(answers, out, errs, &end); {
	case errors.As(err, &unwritten):
		return exitcode.Launch, fmt.Errorf("write the command's output: %w", unwritten.Err)
	case err != nil:
		return exitcode.Launch, errors.New("the job has ended, and the command with it")
	case end.Error != "":
		console.Report(usage.Errorf(end.Hint, "%s", end.Error))
		return max(end.Code, 1), nil
	}
	return end.Code, nil
}
