package launcher

import (
	"errors"
	"time"

	"github.com/gorun/gorun/internal/kv"
	"github.com/gorun/gorun/internal/wire"
	"github.com/gorun/gorun/launcher/output"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/session"
)

const hungTime = 30 * time.Second // silence after which a connected agent counts as hung

// stream begins to carry output, input and requests between hosts and launcher.
func (j *job) stream() {
	j.print(output.Printing{Prefix: j.opts.Prefix, Show: j.opts.Show})
	j.fences = newFences(j.store, j.plan.Size)
	j.openInput()
	for _, s := range j.sessions {
		j.wg.Go(func() { j.listen(s) })
	}
}

// listen reads an agent's frames until its session ends.
func (j *job) listen(s *session.Session) {
	defer s.EndInput()
	err := j.read(s)
	if err != nil {
		j.post(eventHostLost{s.Index, err})
	}
	for err == nil { // frames after done are ignored
		_, err = s.Frames.Next()
	}
}

func (j *job) handle(event any) {
	r, ok := event.(reported)
	if !ok {
		j.apply(event)
		return
	}
	host, name := r.from.Index, r.from.Host.Name
	switch m := r.message.(type) {
	case Exit:
		j.notify(Exited{name, m})
		j.opts.Trace("rank %d %s", m.Rank, describe(m))
		j.fences.rankEnded(m.Rank)
		if err := j.fences.stuck(); err != nil && !m.failed() {
			j.apply(eventAbort{wire.Abort{Rank: m.Rank, Host: name, Cause: err.Error()}})
		}
		j.apply(eventExit{host, m})
	case *wire.Lost:
		j.apply(eventLost{*m})
	case *wire.Fence:
		j.fence(host, *m)
	case *wire.Failing:
		j.apply(eventFailing{host, session.ExplainFailing(*m)})
	case *allDone:
		j.pause.without(host)
		j.apply(eventDone{host, m.left})
	}
}

// fence takes a host's values, and gives all to all hosts when they are complete.
func (j *job) fence(host int, f wire.Fence) {
	all, err := j.fences.add(f)
	if all != nil {
		j.toAll(wire.TypeFenced, wire.Fence{Name: f.Name, Values: all})
	}
	if err == nil {
		err = j.fences.stuck()
	}
	switch twice := new(kv.DuplicateError); {
	case errors.As(err, &twice): // a rank server refuses it
		j.apply(eventHostLost{host, &wire.FormatError{Reason: twice.Error()}})
	case err != nil:
		j.apply(eventAbort{wire.Abort{Rank: -1, Cause: err.Error()}})
	}
}

// apply passes an event to the core and performs its actions.
func (j *job) apply(event any) {
	if e, ok := event.(eventHostLost); ok {
		j.pause.without(e.host)
		if !j.core.settled(e.host) {
			j.notify(HostLost{j.plan.Hosts[e.host].Name, e.err, j.clock()})
		}
	}
	for _, act := range j.core.step(event, j.clock()) {
		switch act := act.(type) {
		case actStop:
			j.toAll(wire.TypeStop, wire.Stop{Grace: act.grace})
		case actAbort:
			j.toAll(wire.TypeAbort, act.abort)
		}
	}
}

func (j *job) stop(s Stop) { j.apply(eventStop{s.Reason, s.Now}) }

func (j *job) stopLate(s Stop) {
	if j.core.reason == NotStopped && !j.core.stopping { // else there is a better reason
		j.core.reason = s.Reason
	}
}

func (j *job) stopped() bool { return j.core.reason != NotStopped }

func (j *job) woke(gap time.Duration) {
	if still := gap - coreTick; still > coreTick {
		j.core.step(eventWoke{still}, j.clock())
	}
}

func (j *job) tick() {
	j.findHung(hungTime)
	j.apply(eventTick{})
}

// interval is short once the job must end within a time.
func (j *job) interval() time.Duration {
	if j.core.stopping {
		return coreTick
	}
	return session.BeatTime
}

func (j *job) hung(s *session.Session, err error) { j.apply(eventHostLost{s.Index, err}) }

func (j *job) finished() bool { return j.core.finished }

func (j *job) connected() []*session.Session { return j.sessions }

func (j *job) expected(s *session.Session) bool { return !j.core.settled(s.Index) }

// check validates a message against the whole job: a host may speak only for its own ranks, about ranks that exist.
func (j *job) check(s *session.Session, message any) error {
	switch m := message.(type) {
	case *wire.Lost:
		return s.CheckLost(m, j.plan.Size)
	case *wire.Fence:
		return session.CheckFence(*m, s.Owns)
	case *wire.Park:
		return unexpected(wire.TypePark)
	case *wire.Joined:
		return unexpected(wire.TypeJoined)
	}
	return nil
}

func (j *job) credit(s *session.Session, f wire.Frame) error { return s.Credit(f) }
func (j *job) number(_ *session.Session, rank int) int       { return rank }
func (j *job) rank(_ *session.Session, rank int) int         { return rank }
func (j *job) author(_ *session.Session, by int) int         { return by }

// result completes the core's result with the last lines of the failed rank's output.
func (j *job) result() Result {
	const lines = 3
	r := j.core.result()
	r.Started, r.Ended = j.started, j.clock()
	if r.Cause == nil || r.Cause.Rank < 0 {
		return r
	}
	if len(j.opts.Programs) > 1 {
		r.Cause.Program = plan.ProgramOf(r.Cause.Rank, j.opts.Programs).Argv[0]
	}
	r.Cause.Stderr = j.stderr.LastLines(r.Cause.Rank, lines)
	if j.files != nil {
		r.Cause.Log = j.files.Log(r.Cause.Rank)
	}
	return r
}
