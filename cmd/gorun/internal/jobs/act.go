package jobs

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
)

// Wait waits for the end of a job, and for its record, and returns its exit code.
func Wait(ctx context.Context, place control.Place, name string, console *ui.UI) (code int, err error) {
	f, err := place.Find(ctx, name)
	if err != nil {
		return 0, err
	}
	if f.Client == nil {
		return codeOf(f.Job, console)
	}
	job, err := f.Client.WaitDone(ctx)
	if err != nil || job.State != control.Ended { // the job may have ended in between
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

// KillAll does to all running jobs of the user what Kill does to one. A job that cannot be stopped
// does not save the others.
func KillAll(ctx context.Context, place control.Place, signal syscall.Signal, console *ui.UI) error {
	found, _, err := Own(ctx, place, false, 0)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		console.Notef("no job of yours runs here")
	}
	var errs []error
	for _, f := range found {
		if f.State != control.Keeping {
			errs = append(errs, Kill(ctx, place, f.ID, signal, nil))
		}
	}
	return errors.Join(errs...)
}

// Kill stops a job for TERM, INT, HUP or KILL, and sends any other signal to its ranks. With ranks
// it sends every signal only to these.
func Kill(ctx context.Context, place control.Place, name string, signal syscall.Signal, ranks [][2]int) error {
	f, err := running(ctx, place, name)
	if err != nil {
		return err
	}
	some, err := each(ranks, f.Job)
	if err != nil {
		return err
	}
	if len(some) > 0 {
		return send(ctx, f, signal, some)
	}
	stop := control.Stop{Signal: int(signal)}
	switch signal {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP:
	case syscall.SIGKILL:
		stop = control.Stop{Signal: int(syscall.SIGTERM), Now: true}
	default:
		return send(ctx, f, signal, nil)
	}
	if err := f.Client.Stop(ctx, stop); err != nil {
		return fmt.Errorf("stop job %s: %w", f.ID, err)
	}
	return nil
}

// lastRank returns the highest number of the job's ranks, including spawned ones.
func lastRank(job control.Job) int { return max(job.Size-1, job.Last) }

// each returns the ranks of a set. A rank that the job does not have is an error.
func each(ranks [][2]int, job control.Job) (all []int, err error) {
	for _, part := range ranks {
		if last := lastRank(job); part[1] > last {
			return nil, usage.Errorf(fmt.Sprintf("this job's ranks go from 0 to %d", last), "job %s has no rank %d",
				job.ID, part[1])
		}
		for rank := part[0]; rank <= part[1]; rank++ {
			all = append(all, rank)
		}
	}
	return all, nil
}

// send sends a signal to ranks, or to all if there are none.
func send(ctx context.Context, f control.Found, signal syscall.Signal, ranks []int) error {
	if err := f.Client.Post(ctx, "/v1/signal", control.Signal{Signal: int(signal), Ranks: ranks}); err != nil {
		return fmt.Errorf("signal the ranks of job %s: %w", f.ID, err)
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
	return f, f.Reach(ctx)
}
