package jobs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/control"
)

// Attach prints a job's output to its end and returns its exit code. SIGINT stops the job, as it
// would in the job's own terminal. The keys Ctrl-P Ctrl-Q end only Attach, with the code 0.
func Attach(ctx context.Context, place control.Place, name string, view View, in *os.File, out, errs io.Writer,
	console *ui.UI) (code int, err error) {
	f, err := place.Find(ctx, name)
	if err != nil {
		return 0, err
	}
	if f.Client == nil {
		console.Notef("job %s has ended", f.ID)
		return codeOf(f.Job, console)
	}
	if err := f.Reach(ctx); err != nil {
		return 0, err
	}
	ctx, detach := context.WithCancel(ctx)
	defer detach()
	caught := make(chan os.Signal, 4)
	signal.Notify(caught, syscall.SIGINT)
	defer signal.Stop(caught)
	go func() {
		var presses ui.Presses
		for {
			select {
			case <-caught:
				times := presses.At(time.Now())
				if times == 0 {
					continue
				}
				if times > 2 {
					detach()
					return
				}
				if err := f.Client.Stop(ctx, control.Stop{Signal: int(syscall.SIGINT), Now: times == 2}); err != nil {
					console.Warningf("stop job %s: %v", f.ID, err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	if restore, err := watchKeys(in, detach); err == nil {
		defer restore()
		console.Notef("attached to job %s; Ctrl-P Ctrl-Q leaves it running, Ctrl-C stops it", f.ID)
	}
	show, err := newShow(f.Job, view, out, errs)
	if err != nil {
		return 0, err
	}
	_, err = show.stream(ctx, f, -1, true)
	unwritten := show.close()
	if ctx.Err() != nil || unwritten != nil {
		console.Notef("left job %s running", f.ID)
		return 0, unwritten
	}
	soon, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	job, waitErr := f.Client.Wait(soon)
	if waitErr != nil {
		now, findErr := place.Find(ctx, f.ID)
		if findErr != nil || now.Client != nil { // the job still runs
			return exitcode.Launch, fmt.Errorf("read the output of job %s: %w", f.ID, cmp.Or(err, waitErr))
		}
		job = now.Job
	}
	if job.Running.IsZero() && job.Cause != "" {
		console.Errorf("%s", job.Cause)
	}
	return codeOf(job, console)
}

// Keys that detach from a job.
const ctrlP = 'P' - '@'
const ctrlQ = 'Q' - '@'

// watchKeys calls detach when the user types Ctrl-P Ctrl-Q. Until restore is called, the terminal
// passes keys at once and does not echo them.
func watchKeys(in *os.File, detach func()) (restore func(), err error) {
	fd := int(in.Fd())
	old, err := ui.Modes(fd)
	if err != nil {
		return nil, err
	}
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		return nil, fmt.Errorf("the terminal belongs to another job")
	}
	keys := *old
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Iflag &^= unix.IXON // Ctrl-Q would not arrive
	keys.Cc[unix.VMIN] = 1
	keys.Cc[unix.VTIME] = 0
	if err := ui.SetModes(fd, &keys); err != nil {
		return nil, err
	}
	go func() { // ends with the process, which ends with Attach
		buf := make([]byte, 64)
		last := byte(0)
		for {
			n, err := in.Read(buf)
			for _, key := range buf[:n] {
				if last == ctrlP && key == ctrlQ {
					detach()
				}
				last = key
			}
			if err != nil {
				return
			}
		}
	}()
	return func() { _ = ui.SetModes(fd, old) }, nil
}
