package job

import (
	"context"
	"slices"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/publish"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/watch/record"
	"github.com/gorun/gorun/launcher"
)

// follower receives the events of a job.
type follower interface {
	// Event is a launcher.Options.Follow.
	Event(launcher.Event)
	// End comes after the last event. It does not come if the job was not handed to the launcher.
	End(ui.Outcome)
	Close()
}

// each calls do for all followers, the last opened first: it may depend on those before it.
func (r *run) each(do func(follower)) {
	for _, f := range slices.Backward(r.followers) {
		do(f)
	}
}

func (r *run) follow(ctx context.Context, hosts hostRequests, hang *hangReporter, requests *ui.Requests) error {
	if r.o.JSONEvents != "" {
		events, err := ui.OpenEvents(r.o.JSONEvents, r.console)
		if err != nil {
			return err
		}
		r.followers = append(r.followers, events)
		events.Plan(r.plan, r.opts.Programs)
	}
	var control *controlServer
	if !r.o.Control.Off {
		var err error
		if control, err = openControl(r, hosts, requests); err != nil {
			return err
		}
		r.followers = append(r.followers, control)
	}
	r.followers = append(r.followers, hang)
	hang.control = control
	hang.watch(requests)
	if r.o.OnEnd != "" {
		r.followers = append(r.followers, &endCommand{run: r, id: control.id(), began: time.Now()})
	}
	if r.o.Summary || r.o.Watch.Given() || r.o.Elastic.ReplaceSlow > 0 {
		slow := publish.Slow{Times: float64(r.o.Elastic.ReplaceSlow), Tell: r.slow}
		var err error
		if hang.published, err = publish.Open(r.o.Watch, record.Run{
			Name:    r.o.Control.Name,
			Program: firstArgv(r.opts.Programs),
			Size:    r.plan.Size,
			Places:  places(r.o, r.plan),
			Began:   time.Now(),
		}, hosts.watched, control.id, slow, r.console); err != nil {
			return err
		}
		r.followers = append(r.followers, hang.published)
	}
	r.followers = append(r.followers, watched{hosts.watched}, conclusion{r, hang.published})
	if r.tools.Here >= 0 || len(r.tools.Panes) > 0 || len(r.tools.Halts) > 0 {
		terminals := &rankTerminals{run: r, hosts: hosts, control: control}
		r.followers = append(r.followers, terminals)
		terminals.open(ctx, requests)
	}
	if !r.o.Elastic.Given() && ui.IsTerminal(r.io.Err) && !r.o.Quiet {
		footer := ui.NewFooter(r.console, len(r.plan.Hosts))
		r.followers = append(r.followers, footer)
		r.opts.Meter = footer
	}
	if r.opts.Tolerate != launcher.TolerateNone {
		r.followers = append(r.followers, &survivors{run: r})
	}
	r.opts.Follow = func(e launcher.Event) { r.each(func(f follower) { f.Event(e) }) }
	r.opts.Stalled = hang.stalled
	if control != nil || r.o.Watch.Given() || r.o.Hang.Timeout > 0 {
		r.opts.Tap = func(rank, fd int, at time.Time, data []byte) {
			control.add(rank, fd, at, data)
			hosts.watched.Output(rank, data)
			hang.output()
		}
	}
	return nil
}

// conclusion prints how the job ended, and with --summary what the ranks used.
type conclusion struct {
	*run
	published *publish.Publishing // nil: no --summary, --metrics, --record or --replace-slow
}

// Event ends the ranks' last line before messages about files that come back.
func (c conclusion) Event(event launcher.Event) {
	if b, is := event.(launcher.BringingBack); is && b.OpenLine && (!c.o.MergeStderr || sameFile(c.io.Out, c.io.Err)) {
		c.console.FreshLine()
	}
}

// End prints nothing of a job that did not start: the caller of Run reports the error.
func (c conclusion) End(end ui.Outcome) {
	if end.Err != nil {
		return
	}
	c.console.Unseen = c.o.Hide.With(c.o.Save.Hidden()).Of(-1, 2)
	c.console.Conclude(end.Result, c.plan.Size, ui.Limits{
		Timeout: time.Duration(c.o.Timeout),
		Hang:    time.Duration(c.o.Hang.Timeout),
	})
	if c.o.Summary {
		c.console.Table(ui.Summary(c.plan, end.Result, c.published.Waits()))
	}
}

func (conclusion) Close() {}

// survivors tells the user at once of the first rank that has failed while others go on.
type survivors struct {
	*run
	ended  int
	warned bool
}

func (s *survivors) Event(event launcher.Event) {
	e, is := event.(launcher.Exited)
	if !is {
		return
	}
	s.ended++
	if !s.warned && s.ended < s.plan.Size && e.Exit.IsFailure() && !e.Exit.Stopped && s.opts.Tolerate.Allows(e.Exit) {
		s.warned = true
		s.console.Warningf("rank %d on %s %s; the others go on", e.Exit.Rank, prose.Printable(e.Host),
			e.Exit.Describe())
	}
}

func (*survivors) End(ui.Outcome) {}
func (*survivors) Close()         {}
