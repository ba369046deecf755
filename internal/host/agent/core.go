package agent

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/host/link"
	"github.com/gorun/gorun/internal/host/memory"
	"github.com/gorun/gorun/internal/net/wire"
)

// The core decides and agent.go acts: an event goes in, actions come out. Time is a value, so that
// tests can try every order of events without a process.

// Lease is how long an agent lives without a frame from the launcher, unless the job has a shorter
// lease.
const Lease = 60 * time.Second

const (
	// lostGrace bounds the grace of ranks whose launcher is lost: nobody waits for them, and the
	// host may be needed.
	lostGrace = 5 * time.Second
	// flushTime is how long after the kill output may wait for a launcher that
	// cannot print it.
	flushTime = 2 * time.Second
	// stuckTime is how long after the first kill a rank may still exist. Then it hangs in the
	// kernel, on a dead file system or device, perhaps for ever.
	stuckTime = 2 * time.Second
)

type (
	eventExited struct { // a rank was reaped
		rank           int
		code, signal   int
		core           bool
		failed         string // it could not be started at all
		outputFinished bool   // it has no output
		maxRSS         int64
		cpu            time.Duration
		mpi            wire.MPIEnd
		asked          int             // the code given to MPI_Abort
		at             time.Duration   // when it failed, if that was before its end
		early          bool            // it ended before a signal to end reached it
		memory         *memory.Reading // after an end that lack of memory may have caused, else nil
	}
	eventDrained struct{ rank int }             // one of a rank's output streams ended
	eventStop    struct{ grace time.Duration }  // the launcher wants the job ended
	eventSignal  struct{ signal int }           // the launcher passes a signal on
	eventLost    struct{ why string }           // the launcher is lost
	eventFailing struct{ failing wire.Failing } // the guard has exited, or the agent was signalled
	eventEpoch   struct{}                       // an elastic job goes on after an abort
	eventAborted struct{ ending []int }         // ranks are told to abort, and some are ending
	eventHeard   struct{}                       // any frame from the launcher
	eventTick    struct{}                       // time passed
	eventReading struct{ reading link.Reading } // of the connection to the launcher
	eventSuspend struct{}                       // the launcher is about to be suspended
	eventResume  struct{}                       // the launcher goes on
	eventExcuse  struct{}                       // the agent itself was suspended, and read no frame
	eventRunning struct {                       // these ranks were started, or an eventExited follows
		ranks   []int
		streams int // output streams of each
	}
)

type (
	actSignal struct { // to a rank's process group
		rank   int
		signal syscall.Signal
	}
	actKillTree struct{}                       // KILL to every descendant
	actStopped  struct{}                       // report that the ranks are suspended
	actReport   struct{ exit wire.Exit }       // report a rank's end
	actFail     struct{ failing wire.Failing } // report why the agent ends
	actAbandon  struct{ why string }           // stop writing to the launcher
	actFinish   struct{}                       // sweep, report done, end
)

type rankState struct {
	exited    bool
	aborted   bool // it was told to abort, which may be why it ends
	signalled bool // TERM or KILL was sent
	killed    bool // KILL was sent
	streams   int  // output streams still open
}

// core is the state of one agent from Start to the end of its ranks.
type core struct {
	ranks    map[int]*rankState
	grace    time.Duration
	lease    time.Duration
	parting  time.Duration // bounds the grace when the launcher is lost
	stopping bool
	lost     bool          // the launcher
	flushed  bool          // the rest of the output has waited long enough
	killed   bool          // at least once
	stuckAt  time.Duration // when killed: from then on, ranks that still exist cannot be killed
	stuck    bool
	finished bool
	killAt   time.Duration // when stopping
	heard    time.Duration // the launcher's last frame
	network  link.Monitor
	stays    bool           // the job may add ranks as long as it runs
	still    bool           // the user has suspended the launcher, and with it the ranks
	lapsed   string         // why the launcher counts as lost although its stream has not ended
	memory   memory.Reading // before the ranks
	blamed   int64          // ranks that ran out of memory
}

func newCore(grace time.Duration) *core {
	return &core{
		ranks:   map[int]*rankState{},
		grace:   grace,
		lease:   Lease,
		parting: lostGrace,
	}
}

// step takes one event at time now and returns what to do, in order.
func (c *core) step(event any, now time.Duration) []any {
	if c.finished {
		return nil
	}
	var acts []any
	switch e := event.(type) {
	case eventRunning:
		for _, r := range e.ranks {
			c.ranks[r] = &rankState{streams: e.streams}
		}
	case eventHeard:
		c.heard = now
	case eventAborted:
		c.aborted(e.ending)
	case eventEpoch:
		for _, rank := range c.running() {
			c.ranks[rank].aborted = false
		}
	case eventExited:
		acts = c.exited(e, now)
	case eventDrained:
		if r := c.ranks[e.rank]; r != nil {
			r.streams--
		}
	case eventStop:
		acts = c.stop(e.grace, now)
	case eventSignal:
		for _, rank := range c.running() {
			acts = append(acts, actSignal{rank, syscall.Signal(e.signal)})
		}
	case eventSuspend, eventResume:
		acts = c.suspend(e == any(eventSuspend{}), now)
	case eventExcuse:
		c.heard = now
	case eventReading:
		if silent := c.network.Dead(e.reading, now); silent > 0 {
			acts = c.lapse(link.Describe(silent), now)
		}
	case eventLost:
		acts = c.launcherLost(e.why, now)
	case eventFailing:
		if !c.lost {
			acts = append(acts, actFail(e))
		}
		acts = append(acts, c.launcherLost("", now)...)
	case eventTick:
		acts = c.tick(now)
	}
	if c.over() {
		c.finished = true
		acts = append(acts, actFinish{})
	}
	return acts
}

func (c *core) exited(e eventExited, now time.Duration) []any {
	r := c.ranks[e.rank]
	if r == nil || r.exited {
		return nil
	}
	r.exited = true
	if e.outputFinished {
		r.streams = 0
	}
	// A launcher's stop can come before the failure that caused it is reaped: a rank that had ended
	// by then, or was killed from elsewhere, was not stopped.
	stopped := r.signalled && !e.early && (r.killed || e.signal != int(syscall.SIGKILL))
	exit := wire.Exit{
		Rank:    e.rank,
		Code:    e.code,
		Signal:  e.signal,
		Core:    e.core,
		Stopped: stopped,
		Aborted: r.aborted,
		MPI:     e.mpi,
		Asked:   e.asked,
		At:      cmp.Or(e.at, now),
		Failed:  e.failed,
		MaxRSS:  e.maxRSS,
		CPU:     e.cpu,
	}
	if e.memory != nil && !stopped {
		exit.OutOfMemory, exit.MemoryLimit = memory.OutOfMemory(c.memory, *e.memory, c.blamed, e.maxRSS)
		if exit.OutOfMemory != "" {
			c.blamed++
		}
	}
	return []any{actReport{exit}}
}

// aborted notes that the ranks are told to abort. It is not the reason for which those in ending
// end.
func (c *core) aborted(ending []int) {
	for _, rank := range c.running() {
		c.ranks[rank].aborted = c.ranks[rank].aborted || !slices.Contains(ending, rank)
	}
}

// stop asks every rank to end and sets the time of the kill. Asked again it can
// only make that time earlier.
func (c *core) stop(grace, now time.Duration) []any {
	if c.stopping {
		c.killAt = min(c.killAt, now+grace)
		return c.tick(now)
	}
	c.stopping = true
	c.killAt = now + grace
	c.still = false
	var acts []any
	for _, rank := range c.running() {
		c.ranks[rank].signalled = true
		// A stopped process must be continued to see the TERM.
		acts = append(acts, actSignal{rank, syscall.SIGTERM}, actSignal{rank, syscall.SIGCONT})
	}
	return append(acts, c.tick(now)...)
}

// suspend stops the ranks with their launcher, or continues them. The lease does not run meanwhile.
// The terminal's stop signal does not reach ranks, which are in other sessions.
func (c *core) suspend(still bool, now time.Duration) []any {
	c.heard = now
	var acts []any
	if c.still != still && !c.stopping { // a rank that must end has to run
		c.still = still
		what := syscall.SIGCONT
		if still {
			what = syscall.SIGSTOP
		}
		for _, rank := range c.running() {
			acts = append(acts, actSignal{rank, what})
		}
	}
	if still {
		acts = append(acts, actStopped{})
	}
	return acts
}

func (c *core) lapse(why string, now time.Duration) []any {
	if !c.lost {
		c.lapsed = why
	}
	return c.launcherLost(why, now)
}

func (c *core) launcherLost(why string, now time.Duration) []any {
	if c.lost {
		return c.tick(now)
	}
	c.lost = true
	return append([]any{actAbandon{why}}, c.stop(min(c.grace, c.parting), now)...)
}

func (c *core) tick(now time.Duration) []any {
	if !c.lost && !c.still && now-c.heard > c.lease {
		return c.lapse(fmt.Sprintf("no word from gorun for %v", c.lease), now)
	}
	c.flushed = c.flushed || (c.stopping && now >= c.killAt+flushTime)
	if c.stopping && now >= c.killAt {
		if !c.killed {
			c.killed = true
			c.stuckAt = now + stuckTime
		}
		c.stuck = now >= c.stuckAt
		for _, r := range c.ranks {
			r.signalled = true
			r.killed = true
		}
		return []any{actKillTree{}}
	}
	return nil
}

// running lists the ranks that have not ended, in order: actions depend on events alone.
func (c *core) running() []int {
	var ranks []int
	for rank, r := range c.ranks {
		if !r.exited {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}

// over reports whether every rank has ended or cannot be ended, and its output is delivered or
// cannot be.
func (c *core) over() bool {
	if !c.stopping && (c.stays || len(c.ranks) == 0) {
		return false
	}
	for _, r := range c.ranks {
		if (!r.exited && !c.stuck) || (r.streams > 0 && !c.lost && !c.flushed) {
			return false
		}
	}
	return true
}
