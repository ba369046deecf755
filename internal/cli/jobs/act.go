package jobs

import (
	"context"
	"fmt"
	"syscall"

	"github.com/gorun/gorun/internal/cli/exitcode"
	"github.com/gorun/gorun/internal/cli/ui"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/control"
)

// Wait waits for the end of a job and returns its exit code.
func Wait(ctx context.Context, place control.Place, name string, console *ui.UI) (code int, err error) {
	f, err := place.Find(ctx, name)
	if err != nil {
		return 0, err
	}
	if f.Client == nil {
		return codeOf(f.Job, console)
	}
	job, err := f.Client.Wait(ctx)
	if err != nil { // it may have ended in between
		if f, err = place.Find(ctx, f.ID); err != nil {
			return 0, err
		}
		job = f.Job
	}
	return codeOf(job, console)
}

// codeOf returns the exit code of an ended job.
func codeOf(j control.Job, console *ui.UI) (int, error) {
	if j.Code == nil {
		console.Errorf("job %s: how it ended is not known: %s", j.ID, j.Cause)
		return exitcode.Launch, nil
	}
	return *j.Code, nil
}

// Kill asks for the end of a job.
func Kill(ctx context.Context, place control.Place, name string, signal syscall.Signal) error {
	f, err := running(ctx, place, name)
	if err != nil {
		return err
	}
	stop := control.Stop{Signal: int(signal)}
	switch signal {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
	case syscall.SIGKILL:
		stop = control.Stop{Signal: int(syscall.SIGTERM), Now: true}
	default:
		return usage.Errorf("TERM and INT stop it with the grace, KILL without", "kill %s: a job is not stopped by signal %d", f.ID, signal)
	}
	if err := f.Client.Stop(ctx, stop); err != nil {
		return fmt.Errorf("stop job %s: %w", f.ID, err)
	}
	return nil
}

// running returns a job that runs on this machine.
func running(ctx context.Context, place control.Place, name string) (control.Found, error) {
	f, err := place.Find(ctx, name)
	switch {
	case err != nil:
		return f, err
	case f.Client == nil && f.State == control.Unknown:
		return f, usage.Errorf("", "job %s cannot be reached: %s", f.ID, f.Cause)
	case f.Client == nil:
		return f, usage.Errorf("gorun ps -a shows how", "job %s has ended", f.ID)
	}
	return f, nil
}
