package launcher

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/output"
	"github.com/gorun/gorun/launcher/session"
)

// loop runs a started job: it takes events from sessions, printers and the user, one at a time, and
// its policy decides.
type loop struct {
	policy  policy
	opts    Options
	began   time.Time
	id      string
	stager  *session.Stager
	work    *session.Work
	store   *kv.Store
	started time.Duration // when the ranks were released; no rank ends before

	events  chan event
	early   chan Stop     // a stop request from before the ranks ran
	over    chan struct{} // closed when the loop has ended and takes no more events
	life    context.Context
	endLife context.CancelCauseFunc
	wg      sync.WaitGroup
	files   *output.Files
	results *output.Results // nil: the job has none
	streams *output.Streams
	failed  chan error // from each printer at most once: its destination takes no more output
	unsaved error      // why output was lost, if its reader has not just ended
	pause   pausing
	looked  time.Duration // time of the last turn
	ending  bool          // whether the user, or lost output, ends the job
}

// policy decides the course of a job: the core for fixed ranks, or the elastic driver.
type policy interface {
	handle(event event)
	stop(Stop) (fromOutside bool) // the user, or lost output, ends the job, unless it ends already
	tick()
	interval() time.Duration // between ticks
	finished() bool
	result() Result
	numbers() []int // the numbers of the ranks in printers and files at the end, by rank; -1: none

	connected() []*session.Session  // sessions with agents
	expected(*session.Session) bool // the session still has messages to send

	// check reports whether the host may send a message. It is safe for concurrent use.
	check(s *session.Session, message report) error
}

// event is an input of the loop.
type event interface{ loopEvent() }

var errOver = errors.New("the job is over")

type (
	reported struct { // an agent has reported something
		from    *session.Session
		message report
		handled chan<- struct{} // closed when the loop has handled it; nil: nobody waits
	}
	agentHung struct { // a connected agent was silent for too long
		session *session.Session
		err     error
	}
	launcherWoke struct{ gap time.Duration } // time since the last turn of the loop
)

func (reported) loopEvent()     {}
func (agentHung) loopEvent()    {}
func (launcherWoke) loopEvent() {}

// report is what an agent reports: one of the following types.
type report interface{ agentReport() }

type (
	exited    struct{ exit Exit }         // a rank has ended
	suspended struct{}                    // the host's ranks are suspended
	allDone   struct{ left []Unkillable } // the host's ranks have ended and are swept up

	// sent is a message of package wire.
	sent[M sendable] struct{ body *M }

	sendable interface {
		wire.Lost | wire.Entered | wire.Fence | wire.Failing | wire.SpawnRequest | wire.Park | wire.Joined
	}
)

func (exited) agentReport()    {}
func (suspended) agentReport() {}
func (allDone) agentReport()   {}
func (sent[M]) agentReport()   {}

func newLoop(opts Options) (*loop, error) {
	l := &loop{
		opts:   opts,
		began:  time.Now(),
		id:     rand.Text()[:12],
		store:  kv.NewStore(),
		stager: session.NewStager(opts.Exe, opts.StartTimeout, opts.Trace, opts.Meter),
		events: make(chan event, 256),
		early:  make(chan Stop, 1),
		failed: make(chan error, 2),
		over:   make(chan struct{}),
	}
	l.life, l.endLife = context.WithCancelCause(context.Background())
	var err error
	if l.results, err = output.OpenResults(opts.ResultDir, opts.ResultLimit); err != nil {
		return nil, err
	}
	l.work, err = session.NewWork(opts.Work.scanned(), opts.Python, opts.Network.Of, opts.Programs, opts.Note,
		opts.Trace, opts.Meter)
	return l, err
}

// clock is the time since the job began. It is safe for concurrent use.
func (l *loop) clock() time.Duration { return time.Since(l.began) }

func (l *loop) post(e event) {
	select {
	case l.events <- e:
	case <-l.over:
	}
}

// notify passes an event to the caller. Until Started, events of different hosts come from
// different goroutines.
func (l *loop) notify(e Event) {
	if l.opts.Follow != nil {
		l.opts.Follow(e)
	}
}

func (l *loop) run(ctx context.Context) Result {
	interval := l.policy.interval()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	cancelled := ctx.Done()
	l.looked = l.clock()
	for !l.policy.finished() {
		l.abandonStuckOutput()
		var act func()
		select {
		case event := <-l.events:
			act = func() { l.handle(event) }
		case stop := <-l.opts.Stops:
			act = func() { l.stopByUser(stop) }
		case stop := <-l.early:
			act = func() { l.stop(stop) }
		case err := <-l.failed:
			act = func() { l.stop(Stop{Reason: l.outputFailed(err)}) }
		case p := <-l.opts.Pauses:
			act = func() { l.pauseOrResume(p) }
		case n := <-l.opts.Signals:
			act = func() { l.toAll(wire.TypeSignal, wire.Signal{Number: n}) }
		case <-cancelled:
			cancelled = nil
			act = func() { l.stop(Stop{Reason: Terminated}) }
		case <-tick.C:
			act = l.policy.tick
		}
		l.wake()
		act()
		if next := l.policy.interval(); next != interval {
			interval = next
			tick.Reset(interval)
		}
	}
	close(l.over)
	for _, s := range l.policy.connected() {
		s.EndInput()
	}
	l.closePrinters()
	result := l.policy.result()
	result.OpenLine = l.streams.OpenLine()
	select {
	case err := <-l.failed: // a failure to write the last bytes
		reason := l.outputFailed(err)
		if result.Code() == 0 {
			result.Stopped = reason
		}
	default:
	}
	if l.files != nil {
		result.Output = l.files.Close(endedOf(result))
	}
	result.Output = errors.Join(l.unsaved, result.Output)
	if l.results != nil {
		result.Output = errors.Join(result.Output, l.results.Close(l.policy.numbers()))
	}
	return result
}

// stop ends the job for a reason from outside, unless it ends already.
func (l *loop) stop(s Stop) { l.ending = l.policy.stop(s) || l.ending }

func (l *loop) stopByUser(s Stop) {
	l.ending = true
	l.stop(s)
}

// outputFailed returns the reason to stop a job whose output cannot be written.
func (l *loop) outputFailed(err error) StopReason {
	switch {
	case errors.Is(err, syscall.EIO) && (l.opts.Screen[1] || l.opts.Screen[2]):
		return HungUp // the terminal has closed, and its SIGHUP may come later
	case errors.Is(err, syscall.EPIPE):
		return OutputClosed
	}
	l.unsaved = fmt.Errorf("the job was stopped: its output cannot be written: %w", err)
	return OutputFailed
}

func (l *loop) handle(event event) {
	switch e := event.(type) {
	case reported:
		if e.handled != nil {
			defer close(e.handled)
		}
		if _, ok := e.message.(suspended); ok {
			l.pause.without(e.from.Index)
			return
		}
		l.policy.handle(event)
	default:
		l.policy.handle(event)
	}
}

// wake detects that the launcher itself was suspended. The agents' silence is then forgiven, and
// their frames are read before any host counts as lost.
func (l *loop) wake() {
	now := l.clock()
	gap := now - l.looked
	l.looked = now
	if gap > core.SuspendedTime {
		l.resetSilence()
	}
	l.policy.handle(launcherWoke{gap})
}

func (l *loop) resetSilence() {
	for _, s := range l.policy.connected() {
		s.ResetSilence()
	}
}

// findHung reports, once, each connected agent that has been silent for longer than limit.
func (l *loop) findHung(limit time.Duration) {
	for _, s := range l.policy.connected() {
		if silent := s.Silence(); silent > limit && l.policy.expected(s) {
			s.ResetSilence()
			l.policy.handle(agentHung{s, fmt.Errorf("no word from the agent for %v", silent.Round(time.Second))})
		}
	}
}

func (l *loop) toAll(t wire.Type, message any) {
	payload := session.Encode(message) // once: the values of a fence grow with the ranks
	for _, s := range l.policy.connected() {
		s.Out.Send(t, payload)
	}
}

// read takes one agent's frames until it is done; the error is why its session ended before.
func (l *loop) read(s *session.Session) error {
	for {
		f, err := s.Frames.Next()
		if err == nil {
			s.Received(f, l.clock())
			if err = l.frame(s, f); err == nil && f.Type == wire.TypeDone {
				return nil
			}
		}
		if err != nil {
			return s.ConnectionLost(err)
		}
	}
}

// frame handles one frame of an agent. The host is the session's, never the frame's: an agent can
// only speak for its own ranks.
func (l *loop) frame(s *session.Session, f wire.Frame) error {
	switch f.Type {
	case wire.TypeHeartbeat:
		return nil
	case wire.TypeOutput:
		return l.output(s, f)
	case wire.TypeCredit:
		return s.Credit(f)
	case wire.TypeExit:
		return wire.Handle(f, func(e wire.Exit) error {
			if err := s.CheckExit(&e); err != nil {
				return err
			}
			e.At = session.Clamp(s.ToLauncher(e.At, l.clock()), l.started, l.clock())
			l.post(reported{from: s, message: exited{core.ExitOf(e)}})
			return nil
		})
	case wire.TypeNote:
		return wire.Handle(f, func(n wire.Note) error {
			worth, err := s.CheckNote(&n)
			if worth {
				text := fmt.Sprintf("rank %d on %s: %s", s.RankNow(n.By), s.Host.Name, n.Text)
				if n.Detail {
					l.opts.Trace("%s", text)
					return err
				}
				l.opts.Note(text)
				if n.Stall && l.opts.Stalled != nil {
					l.opts.Stalled(text)
				}
			}
			return err
		})
	case wire.TypePut:
		return wire.Handle(f, func(p wire.Put) error { return s.Put(l.store, p) })
	case wire.TypeGet:
		return wire.Handle(f, func(g wire.Get) error { return s.Get(l.life, l.store, g) })
	case wire.TypeTell:
		return s.ReceiveTell(f)
	case wire.TypeSuspended:
		l.post(reported{from: s, message: suspended{}})
		return nil
	case wire.TypeLost:
		return forward[wire.Lost](l, s, f)
	case wire.TypeEntered:
		return forward[wire.Entered](l, s, f)
	case wire.TypeFence:
		return forward[wire.Fence](l, s, f)
	case wire.TypeFailing:
		return forward[wire.Failing](l, s, f)
	case wire.TypeSpawn:
		return forward[wire.SpawnRequest](l, s, f)
	case wire.TypePark:
		return forward[wire.Park](l, s, f)
	case wire.TypeJoined:
		return forward[wire.Joined](l, s, f)
	case wire.TypeDone:
		if err := s.CheckDone(); err != nil {
			return err
		}
		s.EndInput()
		var d wire.Done
		if len(f.Payload) > 0 {
			if err := f.Decode(&d); err != nil {
				return err
			}
		}
		l.post(reported{from: s, message: allDone{unkillableOn(s.Host.Name, d.Unkillable)}})
		return nil
	}
	return unexpected(f.Type)
}

func unexpected(t wire.Type) error {
	return &wire.FormatError{Reason: fmt.Sprintf("the agent sent a %s frame", t)}
}

// forward passes a message to the loop if the policy's check accepts it, and waits until the loop
// has handled it: while that is held up, by a terminal that takes nothing or a message that takes
// long, each host has one message in memory, of up to wire.MaxControl bytes.
func forward[M sendable](l *loop, s *session.Session, f wire.Frame) error {
	return wire.Handle(f, func(body M) error {
		message := sent[M]{&body}
		if err := l.policy.check(s, message); err != nil {
			return err
		}
		handled := make(chan struct{})
		l.post(reported{s, message, handled})
		select {
		case <-handled:
		case <-l.over:
		}
		return nil
	})
}

// numberOf returns the number of a session's rank in printers and files. In an elastic job that is
// the session's index, because the process's rank changes.
func numberOf(s *session.Session, rank int) int {
	if s.Now != nil {
		return s.Index
	}
	return rank
}

// output hands a rank's bytes to the printer, which returns the credit.
func (l *loop) output(s *session.Session, f wire.Frame) error {
	rank, fd := wire.RankFD(f.Stream)
	if !s.Began(rank) {
		return session.ForeignRank(rank)
	}
	p := l.streams.Of(fd)
	if p == nil || fd == wire.Result && len(f.Payload) == 0 {
		return &wire.FormatError{Reason: fmt.Sprintf("%d bytes in output stream %d of rank %d", len(f.Payload), fd,
			rank)}
	}
	if err := s.CountOutput(f.Stream, len(f.Payload)); err != nil {
		return err
	}
	if fd == wire.Result && !s.Host.Planned(rank) { // the results of spawned ranks have no place
		s.Out.Creditor(f.Stream)(len(f.Payload))
		return nil
	}
	shown := wire.OutputStream(numberOf(s, rank), fd)
	if len(f.Payload) == 0 {
		p.Pause(shown, s.Out.Creditor(f.Stream))
		return nil
	}
	p.Add(shown, f.Payload, s.Out.Creditor(f.Stream))
	return nil
}

// print starts the printers of the output of ranks, with so many of which the job starts.
func (l *loop) print(how output.Format, ranks int) {
	stdout := output.Printing{
		Format: how,
		Files:  l.files,
		Ranks:  ranks,
		Failed: func(err error) { l.failed <- err },
	}
	stderr := stdout
	stdout.W = l.opts.Stdout
	stdout.Screen = l.opts.Screen[1]
	if !l.opts.OneOutput {
		stderr.W = l.opts.Stderr
		stderr.Screen = l.opts.Screen[2]
	}
	l.streams = output.NewStreams(stdout, stderr, l.results)
}

// abandonStuckOutput abandons blocked writes after a stop request. A job that ends normally waits
// for its reader, so that its last lines are not lost.
func (l *loop) abandonStuckOutput() {
	if l.ending {
		l.streams.AbandonIfStuck()
	}
}

// closePrinters writes the remaining output. A stop request still cuts that short.
func (l *loop) closePrinters() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.streams.Close()
	}()
	tick := time.NewTicker(core.TickTime)
	defer tick.Stop()
	for {
		select {
		case <-closed:
			return
		case stop := <-l.opts.Stops:
			l.stopByUser(stop)
		case <-tick.C:
			l.abandonStuckOutput()
		}
	}
}
