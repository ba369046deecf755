package launcher

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/kv"
	"github.com/gorun/gorun/internal/wire"
	"github.com/gorun/gorun/launcher/output"
	"github.com/gorun/gorun/launcher/session"
)

const (
	hungTime = 30 * time.Second // silence after which a connected agent counts as hung
	coreTick = 100 * time.Millisecond
	// stoppedTime is how late a look at the clock is when we ourselves were stopped.
	stoppedTime = 3 * time.Second
)

// stream begins to carry output, input and requests between the hosts and us.
func (j *job) stream() {
	j.stdout, j.stderr = j.opts.printers(output.Printing{Prefix: j.opts.Prefix, Show: j.opts.Show, Files: j.files, Failed: func(err error) { j.post(eventOutput{err}) }})
	ctx, cancel := context.WithCancel(context.Background())
	j.stopGet = cancel
	j.fences = newFences(ctx, j.plan.Size)
	j.openInput()
	for _, s := range j.sessions {
		j.wg.Go(func() { j.read(s) })
	}
}

type (
	eventOutput struct{ err error } // the terminal does not take any more
	eventFence  struct {
		host  int
		fence wire.Fence
	}
)

func (j *job) post(event any) {
	select {
	case j.events <- event:
	case <-j.ended:
	}
}

// reap runs the job to its end and says what it came to.
func (j *job) reap(ctx context.Context) Result {
	beat := time.NewTicker(session.BeatTime)
	defer beat.Stop()
	var tick <-chan time.Time // once the job is to end, which has a limit
	cancelled := ctx.Done()
	j.looked = time.Now()
	hasty := false // the user wants the end, whatever has begun it
	for finished := false; !finished; {
		hurry(hasty || j.core.reason != NotStopped, j.stdout, j.stderr)
		var event any = eventTick{}
		select {
		case event = <-j.events:
		case stop := <-j.opts.Stops:
			hasty, event = true, eventStop{stop.Reason, stop.Now}
		case stop := <-j.early:
			event = eventStop{stop.Reason, stop.Now}
		case p := <-j.opts.Pauses:
			j.pauseOrResume(p)
		case n := <-j.opts.Signals:
			j.toAll(wire.TypeSignal, wire.Signal{Number: n})
		case <-cancelled:
			cancelled = nil
			event = eventStop{why: Terminated}
		case <-beat.C:
			j.excuseOurselves() // before the look
			event = j.findHung()
		case <-tick:
		}
		j.excuseOurselves()
		finished = j.apply(event)
		if j.core.stopping && tick == nil {
			ticker := time.NewTicker(coreTick)
			defer ticker.Stop()
			tick = ticker.C
		}
	}
	close(j.ended)
	j.stopGet()
	j.closeInput()
	closePrinters(hasty || j.core.reason != NotStopped, j.opts.Stops, func(stop Stop) {
		if j.core.reason == NotStopped && !j.core.stopping { // else there is a better reason
			j.core.reason = stop.Reason
		}
	}, j.stdout, j.stderr)
	result := j.core.result()
	j.explain(&result)
	if j.files != nil {
		result.Output = j.files.Close(result.ended())
	}
	return result
}

// apply steps the core, does what it says, and reports whether the end has come.
func (j *job) apply(event any) (finished bool) {
	switch e := event.(type) {
	case eventFence:
		all, err := j.fences.add(e.fence)
		if all != nil {
			j.toAll(wire.TypeFenced, wire.Fence{Name: e.fence.Name, Values: all})
		}
		if err == nil {
			err = j.fences.stuck()
		}
		if err == nil {
			return false
		}
		event = eventAbort{wire.Abort{Rank: -1, Cause: err.Error()}}
		if twice := new(kv.DuplicateError); errors.As(err, &twice) { // a door would not have let it pass
			event = eventGone{e.host, &wire.FormatError{Reason: twice.Error()}}
		}
	case eventOutput:
		if !errors.Is(e.err, syscall.EPIPE) {
			j.opts.Note(fmt.Sprintf("cannot write output any more: %v", e.err))
		}
		event = eventStop{why: OutputClosed}
	case eventSuspended:
		j.pause.without(e.host)
	case eventDone:
		j.pause.without(e.host)
	case eventGone:
		j.pause.without(e.host)
		if !j.core.settled(e.host) {
			j.tell(HostLost{j.plan.Hosts[e.host].Name, e.err, j.now()})
		}
	case eventExit:
		j.tell(Exited{j.plan.Hosts[e.host].Name, e.exit})
		j.opts.Trace("rank %d %s", e.exit.Rank, describe(e.exit))
		j.fences.rankEnded(e.exit.Rank)
		if err := j.fences.stuck(); err != nil && !e.exit.failed() {
			j.apply(eventAbort{wire.Abort{Rank: e.exit.Rank, Host: j.plan.Hosts[e.host].Name, Cause: err.Error()}})
		}
	}
	for _, act := range j.core.step(event, j.now()) {
		switch act := act.(type) {
		case actStop:
			j.toAll(wire.TypeStop, wire.Stop{Grace: act.grace})
		case actAbort:
			j.toAll(wire.TypeAbort, act.abort)
		}
	}
	return j.core.finished
}

func (j *job) toAll(t wire.Type, message any) {
	for _, s := range j.sessions {
		s.Out.SendMessage(t, message)
	}
}

// excuseOurselves sees that we were stopped since the last event: agents get time for a word then, and what they
// said meanwhile is read before anything is given up.
func (j *job) excuseOurselves() {
	now := time.Now()
	if now.Sub(j.looked) > stoppedTime {
		for _, s := range j.sessions {
			s.ResetSilence()
		}
	}
	if still := now.Sub(j.looked) - coreTick; still > coreTick {
		j.core.step(eventWoke{still}, j.now())
	}
	j.looked = now
}

// findHung looks for an agent that has been silent too long while its connection stands.
func (j *job) findHung() any {
	for _, s := range j.sessions {
		if silent := s.Silence(); silent > hungTime && !j.core.settled(s.Index) {
			return eventGone{s.Index, fmt.Errorf("no word from the agent for %v", silent.Round(time.Second))}
		}
	}
	return eventTick{}
}

// read takes one agent's frames until its session ends.
func (j *job) read(s *session.Session) {
	defer s.EndInput()
	done := false
	for {
		f, err := s.Frames.Next()
		if err == nil {
			if s.Received(f, j.now()); !done { // what comes after done has no meaning
				err = j.frame(s, f)
			}
			done = done || f.Type == wire.TypeDone && err == nil
		}
		if err != nil {
			if !done {
				j.post(eventGone{s.Index, s.LossReason(err)})
			}
			return
		}
	}
}

// frame handles one frame of an agent. The host is taken from the session, never
// from the frame: an agent can only speak for its own ranks.
func (j *job) frame(s *session.Session, f wire.Frame) error {
	switch f.Type {
	case wire.TypeHeartbeat:
		return nil
	case wire.TypeOutput:
		return j.output(s, f)
	case wire.TypeCredit:
		return s.Credit(f)
	case wire.TypeExit:
		return wire.Handle(f, func(e wire.Exit) error {
			if err := s.CheckExit(&e); err != nil {
				return err
			}
			e.At = session.Clamp(s.ToLauncher(e.At, j.now()), j.started, j.now())
			j.post(eventExit{s.Index, exitOf(e)})
			return nil
		})
	case wire.TypeLost:
		return wire.Handle(f, func(l wire.Lost) error {
			if err := s.CheckLost(&l, j.plan.Size); err != nil {
				return err
			}
			j.post(eventLost{l})
			return nil
		})
	case wire.TypeNote:
		return wire.Handle(f, func(n wire.Note) error {
			worth, err := s.CheckNote(&n)
			if worth {
				j.opts.Note(fmt.Sprintf("rank %d on %s: %s", n.By, s.Host.Name, n.Text))
			}
			return err
		})
	case wire.TypeFence:
		return wire.Handle(f, func(fence wire.Fence) error {
			if err := session.CheckFence(fence, s.Owns); err != nil {
				return err
			}
			j.post(eventFence{s.Index, fence})
			return nil
		})
	case wire.TypePut:
		return wire.Handle(f, func(p wire.Put) error { return j.fences.store.Put(p.Key, p.Value) })
	case wire.TypeGet:
		return wire.Handle(f, func(g wire.Get) error { return s.Get(j.fences.ctx, j.fences.store, g) })
	case wire.TypeFailing:
		return wire.Handle(f, func(failing wire.Failing) error {
			j.post(eventFailing{s.Index, session.ExplainFailing(failing)})
			return nil
		})
	case wire.TypeSuspended:
		j.post(eventSuspended{s.Index})
		return nil
	case wire.TypeDone:
		if err := s.CheckDone(); err != nil {
			return err
		}
		s.EndInput()
		var done wire.Done
		if len(f.Payload) > 0 {
			if err := f.Decode(&done); err != nil {
				return err
			}
		}
		j.post(eventDone{s.Index, unkillableOn(s.Host.Name, done.Unkillable)})
		return nil
	}
	return &wire.FormatError{Reason: fmt.Sprintf("the agent sent a %s frame", f.Type)}
}

// output hands a rank's bytes to the printer, which returns the credit.
func (j *job) output(s *session.Session, f wire.Frame) error {
	rank, fd := wire.RankFD(f.Stream)
	if !s.Owns(rank) {
		return session.ForeignRank(rank)
	}
	p := j.stdout
	if fd == 2 {
		p = j.stderr
	}
	if err := s.Out.CountReceived(f.Stream, len(f.Payload)); err != nil {
		return err
	}
	if len(f.Payload) == 0 {
		p.Pause(f.Stream)
		return nil
	}
	p.Add(f.Stream, f.Payload, s.Out.Creditor(f.Stream))
	return nil
}

// hurry lets go of output that nobody takes, once the user wants the end. A job that ends by itself waits: its last
// words are what the user will want to see.
func hurry(wanted bool, printers ...*output.Printer) {
	if !wanted {
		return
	}
	for _, p := range printers {
		p.Writer.AbandonIfStuck()
	}
}

// closePrinters writes what is left. Both may be the same one. Nothing of the job is there any more, but the user may still want
// its end sooner: stopped is told of that. hasty says that the user wanted it before.
func closePrinters(hasty bool, stops <-chan Stop, stopped func(Stop), stdout, stderr *output.Printer) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		stdout.Close()
		if stderr != stdout {
			stderr.Close()
		}
	}()
	look := time.NewTicker(coreTick)
	defer look.Stop()
	for {
		select {
		case <-closed:
			return
		case stop := <-stops:
			hasty = true
			stopped(stop)
		case <-look.C:
			hurry(hasty, stdout, stderr)
		}
	}
}
