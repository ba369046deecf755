package launcher

import (
	"errors"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/session"
)

// stream begins to carry output, input and requests between hosts and launcher.
func (j *job) stream() {
	j.print(j.opts.Format, j.plan.Size)
	j.spawned = newSpawnCoordinator(j.plan, j.sessions, func(ranks []int) { j.notify(Spawned{ranks}) })
	j.fences = core.NewFences(0, j.plan.Size)
	j.startup = core.NewStartup(j.plan, j.opts.MPITimeout)
	j.openInput()
	for _, s := range j.sessions {
		s.ResetSilence() // while other hosts started, nobody read its frames
		j.wg.Go(func() { j.listen(s) })
	}
}

// listen reads an agent's frames until its session ends.
func (j *job) listen(s *session.Session) {
	defer s.EndInput()
	err := j.opts.Sessions.During(s, j.read)
	if err != nil {
		j.post(hostLost{Host: s.Index, Err: err})
	}
	for err == nil { // frames after done are ignored
		_, err = s.Frames.Next()
	}
}

// hostLost is the loss of a host or of its agent.
type hostLost core.HostLost

func (hostLost) loopEvent() {}

func (j *job) handle(event event) {
	switch e := event.(type) {
	case reported:
		j.reported(e)
	case hostLost:
		j.apply(core.HostLost(e))
	case agentHung:
		j.apply(core.HostLost{Host: e.session.Index, Err: e.err})
	case launcherWoke:
		if still := e.gap - core.TickTime; still > core.TickTime {
			j.core.Step(core.Woke{Still: still}, j.clock())
		}
	}
}

// reported handles a report of an agent.
func (j *job) reported(r reported) {
	host := r.from.Index
	name := r.from.Host.Name
	switch m := r.message.(type) {
	case exited:
		j.exited(r.from, m.exit)
	case sent[wire.SpawnRequest]:
		j.spawned.request(r.from, *m.body)
	case sent[wire.Lost]:
		j.apply(core.RankLost{Lost: *m.body})
	case sent[wire.Entered]:
		j.startup.Entered(m.body.Ranks, j.clock())
	case sent[wire.Fence]:
		j.fence(host, *m.body)
	case sent[wire.Failing]:
		j.apply(core.HostFailing{Host: host, Err: session.ExplainFailing(*m.body)})
	case allDone:
		j.pause.without(host)
		// Before its end, which may be the job's.
		if rank := j.spawned.left(host); rank >= 0 && !j.core.Stopping() {
			j.apply(core.RankLate{Rank: rank, Err: &core.NotSpawnedError{Rank: rank, Host: name}})
		}
		j.apply(core.HostDone{Host: host, Left: m.left})
	}
}

func (j *job) exited(from *session.Session, e Exit) {
	if e.Stopped {
		e.Cause = j.core.StopCause()
	}
	j.notify(Exited{from.Host.Name, e})
	j.opts.Trace("rank %d %s", e.Rank, e.Describe())
	j.fences.RankEnded(e.Rank)
	if stuck := j.fences.Stuck(); stuck != nil && j.core.GoesOn(e) {
		j.apply(*stuck)
	}
	j.apply(core.RankExited{Host: from.Index, Exit: e})
	j.spawned.ended(from.Index, e.Rank)
}

// fence records a host's values, and sends all values to all hosts when they are complete.
func (j *job) fence(host int, f wire.Fence) {
	all, err := j.fences.Add(j.plan.Hosts[host].Name, f)
	if all != nil {
		j.toAll(wire.TypeFenced, *all)
		j.startup.Fenced(f.Name)
	}
	var stuck *core.RankLost
	var twice *kv.DuplicateError
	var full *kv.FullError
	switch {
	case err == nil:
	case errors.As(err, &stuck):
		j.apply(*stuck)
	case errors.As(err, &twice): // a rank server refuses it
		j.apply(core.HostLost{Host: host, Err: &wire.FormatError{Reason: twice.Error()}})
	case errors.As(err, &full):
		j.apply(core.HostLost{Host: host, Err: &wire.FormatError{Reason: full.Error()}})
	default:
		j.apply(core.Abort{Abort: wire.Abort{Rank: -1, Cause: err.Error()}})
	}
}

// apply passes an event to the core and performs its actions.
func (j *job) apply(event core.Event) {
	if e, ok := event.(core.HostLost); ok {
		e.Err = j.opts.located(j.plan.Hosts[e.Host].Name, e.Err)
		event = e
		j.pause.without(e.Host)
		if !j.core.Settled(e.Host) {
			j.notify(HostLost{j.plan.Hosts[e.Host].Name, e.Err, j.clock()})
		}
	}
	for _, act := range j.core.Step(event, j.clock()) {
		switch act := act.(type) {
		case core.StopRanks:
			j.toAll(wire.TypeStop, wire.Stop{Grace: act.Grace})
		case core.AbortRanks:
			j.toAll(wire.TypeAbort, act.Abort)
		}
	}
}

func (j *job) stop(s Stop) bool {
	if j.core.Finished() {
		j.core.StopLate(s.Reason)
	} else {
		j.apply(core.Stop{Why: s.Reason, Now: s.Now})
	}
	return j.core.Stopped()
}

func (j *job) tick() {
	j.findHung(core.HungTime)
	note, late := j.startup.Look(j.clock())
	if note != "" {
		j.opts.Note(note)
	}
	if late != nil {
		j.apply(*late)
	}
	j.apply(core.Tick{})
}

// interval is short once the job must end within a time.
func (j *job) interval() time.Duration {
	if j.core.Stopping() {
		return core.TickTime
	}
	return session.BeatTime
}

func (j *job) finished() bool { return j.core.Finished() }

func (j *job) connected() []*session.Session { return j.sessions }

func (j *job) expected(s *session.Session) bool { return !j.core.Settled(s.Index) }

// check validates a message against the whole job: a host may speak only for its own ranks, about
// ranks that exist.
func (j *job) check(s *session.Session, message report) error {
	switch m := message.(type) {
	case sent[wire.Lost]:
		return s.CheckLost(m.body, j.plan.Size)
	case sent[wire.Entered]:
		if j.opts.WithoutMPI {
			return unexpected(wire.TypeEntered)
		}
		return s.CheckEntered(m.body)
	case sent[wire.SpawnRequest]:
		return s.CheckSpawn(m.body)
	case sent[wire.Fence]:
		if j.opts.WithoutMPI && wire.IsMPIFence(m.body.Name) {
			return &wire.FormatError{Reason: "a fence of MPI, which no program of the job uses"}
		}
		return session.CheckFence(*m.body, s.Host.Planned) // others take part in no fence of the job
	case sent[wire.Park]:
		return unexpected(wire.TypePark)
	case sent[wire.Joined]:
		return unexpected(wire.TypeJoined)
	}
	return nil
}

func (j *job) numbers() []int { return j.plan.Numbers() }

// result completes the core's result with the last lines of the failed rank's output.
func (j *job) result() Result {
	r := j.core.Result()
	r.Codes = j.opts.Codes
	r.Started = j.started
	r.Ended = j.clock()
	if r.Cause == nil || r.Cause.Rank < 0 {
		return r
	}
	if len(j.opts.Programs) > 1 && r.Cause.Rank < j.plan.Size { // a rank that was spawned runs another one
		r.Cause.Program = plan.ProgramOf(r.Cause.Rank, j.opts.Programs).Argv[0]
	}
	r.Cause.ReadStderr(j.streams.LastLines(r.Cause.Rank))
	r.Cause.Shown = j.streams.Visible(r.Cause.Rank, len(r.Cause.Stderr))
	if j.files != nil {
		r.Cause.Log = j.files.Log(r.Cause.Rank)
	}
	return r
}
