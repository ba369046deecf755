// Package publish exports the resource use of a running job to Prometheus and to a record.
package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/sight/watch/metrics"
	"github.com/gorun/gorun/internal/sight/watch/record"
	"github.com/gorun/gorun/internal/sight/watch/straggler"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// metricsTime is the interval of samples for --metrics: collectors come every 15 to 60 seconds.
const metricsTime = 5 * time.Second

// Publishing exports the resource use of ranks and hosts while a job runs.
type Publishing struct {
	recorder *record.Recorder // nil: nothing is recorded
	late     lateness
	wg       sync.WaitGroup
	end      ui.Outcome
}

// Open begins --metrics and --record of a job that w watches, and looks for stragglers. id returns
// the job's id, or "". The caller ends w and then closes the result.
func Open(to settings.Watch, run record.Run, w *watch.Watch, id func() string, slow Slow,
	console *ui.UI) (*Publishing, error) {
	target, err := openMetrics(to.Metrics, console)
	if err != nil {
		return nil, err
	}
	p := &Publishing{}
	if to.Record != "" {
		if p.recorder, err = record.Create(to.Record, run, func(err error) {
			console.Warningf("recording the job stopped: %v", err)
		}); err != nil {
			if target != nil {
				err = errors.Join(err, target.Close())
			}
			return nil, usage.Errorf(cmp.Or(usage.Hint(err), "name a new folder"), "record the job in %s: %w",
				to.Record, err)
		}
		p.wg.Go(func() {
			_ = w.Follow(context.Background(), func(since time.Duration) time.Duration {
				return record.Every(run.Size, since)
			}, func(s watch.Sample) error {
				p.recorder.Sample(s)
				return nil
			})
			var last []string
			if failed := p.end.Result.Cause; failed != nil {
				last = failed.Stderr
			}
			p.recorder.Close(id(), p.end.Code(), p.end.Reason(), last)
		})
	}
	p.wg.Go(func() { p.late.follow(w, console, p.straggles, slow) })
	if target != nil {
		p.wg.Go(func() {
			export(target, w, func() metrics.Job { return metrics.Job{ID: id(), Name: run.Name} }, console)
		})
	}
	return p, nil
}

// Event records an event of the job.
func (p *Publishing) Event(event launcher.Event) {
	if p.recorder == nil {
		return
	}
	switch e := event.(type) {
	case launcher.Started:
		p.recorder.Event(record.Event{At: time.Now(), What: "started"})
	case launcher.Membership:
		p.recorder.Event(record.Event{
			At:   time.Now(),
			What: "membership",
			Host: e.Host,
			Text: fmt.Sprintf("of epoch %d: %s", e.Epoch, e.Text),
		})
	case launcher.Exited:
		p.recorder.Event(record.Event{
			At:      time.Now(),
			What:    "exited",
			Rank:    e.Exit.Rank,
			Host:    e.Host,
			Text:    e.Exit.Describe(),
			Failed:  e.Exit.Code != 0 || e.Exit.Signal != 0,
			Stopped: e.Exit.Stopped,
		})
	case launcher.HostLost:
		p.recorder.Event(record.Event{
			At:   time.Now(),
			What: "lost",
			Host: e.Host,
			Text: e.Err.Error(),
		})
	}
}

func (p *Publishing) straggles(late straggler.Finding, text string) {
	if p.recorder != nil {
		p.recorder.Event(record.Event{
			At:   time.Now(),
			What: "straggler",
			Rank: late.Rank,
			Host: late.Host,
			Text: text,
		})
	}
}

// Stacks records a report of stacks and the reason for it.
func (p *Publishing) Stacks(why, text string) {
	if p.recorder != nil {
		p.recorder.Event(record.Event{
			At:     time.Now(),
			What:   "stacks",
			Text:   why,
			Stacks: text,
		})
	}
}

// End records how the job ended.
func (p *Publishing) End(end ui.Outcome) { p.end = end }

// Close waits for the last sample.
func (p *Publishing) Close() { p.wg.Wait() }

// openMetrics returns the target of --metrics, or nil.
func openMetrics(name string, console *ui.UI) (metrics.Target, error) {
	if name == "" {
		return nil, nil
	}
	at, isAddress := metrics.Address(name)
	if !isAddress {
		target, err := metrics.OpenFile(name)
		if err != nil {
			return nil, usage.Errorf(cmp.Or(usage.Hint(err), "name a file in an existing folder that you may write "+
				"to, or an address such as 127.0.0.1:9400"), "write metrics to %s: %w", name, err)
		}
		return target, nil
	}
	server, err := metrics.Listen(at)
	if err != nil {
		return nil, usage.Errorf("choose another port, or :0 for any that is free", "offer metrics at %s: %w", name,
			err)
	}
	console.Notef("metrics are at %s", server.URL())
	if !at.Addr().IsLoopback() {
		console.Warningf("whoever reaches %s can read the metrics, which have the names of hosts; 127.0.0.1 keeps "+
			"them on this machine", name)
	}
	return server, nil
}

// export keeps a target up to date until the job ends.
func export(target metrics.Target, w *watch.Watch, job func() metrics.Job, console *ui.UI) {
	failed := false
	_ = w.Follow(context.Background(), func(time.Duration) time.Duration {
		return metricsTime
	}, func(s watch.Sample) error {
		err := target.Put(job(), s)
		if err != nil && !failed {
			console.Warningf("writing metrics failed: %v", err)
		}
		failed = err != nil
		return nil // a full disk may have room later
	})
	if err := target.Close(); err != nil && !failed {
		console.Warningf("ending the metrics: %v", err)
	}
}
