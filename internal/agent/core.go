package agent

import (
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/agent/link"
	"github.com/gorun/gorun/internal/wire"
)

// The core decides; agent.go acts. An event goes in, actions come out, and time
// is a value, so that every order of events can be tried without a process.

// Lease is how long an agent lives on without a word from the launcher.
const Lease = 60 * time.Second // unless the launcher wants a shorter one

const (
	// goneGrace bounds the grace of ranks whose launcher is gone: nobody waits for
	// them, and somebody may want the host.
	goneGrace = 5 * time.Second
	// flushTime is how long after the kill output may wait for a launcher that
	// cannot print it.
	flushTime = 2 * time.Second
	// stuckTime is how long after the first kill a rank may still be there. It waits in the kernel then, on a dead
	// file system or device, and may do so for ever.
	stuckTime = 2 * time.Second
)

type (
	eventExited struct { // a rank was reaped
		rank           int
		code, signal   int
		core           bool
		failed         string // it could not be started at all
		outputFinished bool   // it never had any
		maxRSS         int64
		cpu            time.Duration
		mpi            wire.MPIEnd
		early          bool           // it had ended before a signal to end reached it
		memory         *memoryReading // after an end that want of memory may have caused; nil after others
	}
	eventDrained struct{ rank int }             // one of a rank's two output streams ended
	eventStop    struct{ grace time.Duration }  // the launcher wants the job ended
	eventSignal  struct{ signal int }           // the launcher passes a signal on
	eventGone    struct{ why string }           // the launcher is gone
	eventFailing struct{ failing wire.Failing } // the guard is gone, or we are signalled
	eventEpoch   struct{}                       // an elastic job goes on: what was aborted is over
	eventAborted struct{ ending []int }         // ranks are told that the job cannot go on; some of them end already
	eventHeard   struct{}                       // any frame from the launcher
	eventTick    struct{}                       // time passed
	eventLooked  struct{ reading link.Reading } // at the connection to the launcher
	eventSuspend struct{}                       // the launcher will stand still, and says so
	eventResume  struct{}                       // it goes on
	eventExcuse  struct{}                       // the agent itself stood still: it could not hear anything
	eventRunning struct{ ranks []int }          // these ranks were started or will report eventExited
)

type (
	actSignal struct { // to a rank's process group
		rank   int
		signal syscall.Signal
	}
	actKillTree struct{}                       // KILL to every descendant
	actStopped  struct{}                       // tell the launcher that the ranks stand still
	actReport   struct{ exit wire.Exit }       // tell the launcher
	actFail     struct{ failing wire.Failing } // tell the launcher why there will be no more
	actAbandon  struct{ why string }           // stop writing to the launcher
	actFinish   struct{}                       // sweep, say done, end
)

type rankState struct {
	exited    bool
	aborted   bool // what it does from now on may be because it was told to abort
	signalled bool // we sent it TERM or KILL
	killed    bool // we sent it KILL
	streams   int  // output streams still open
}

// core is the state of one agent from Start to the end of its ranks.
type core struct {
	ranks    map[int]*rankState
	grace    time.Duration
	lease    time.Duration
	parting  time.Duration // the most that ranks get to end when the launcher is gone
	stopping bool
	gone     bool
	flushed  bool          // what output there still is has waited long enough
	killed   bool          // once at least
	stuckAt  time.Duration // when killed: ranks that are still there then cannot be killed
	stuck    bool
	finished bool
	killAt   time.Duration // when stopping
	heard    time.Duration // last word from the launcher
	network  link.Monitor
	still    bool          // the launcher stands still because the user wants it, and so do the ranks
	lapsed   string        // why the launcher counts as gone though nobody said so
	memory   memoryReading // before the ranks
	blamed   int64         // ranks that ran out of memory
}

func newCore(grace time.Duration) *core {
	return &core{ranks: map[int]*rankState{}, grace: grace, lease: Lease, parting: goneGrace}
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
			c.ranks[r] = &rankState{streams: 2}
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
	case eventLooked:
		if silent := c.network.Dead(e.reading, now); silent > 0 {
			acts = c.lapse(link.Describe(silent), now)
		}
	case eventGone:
		acts = c.launcherGone(e.why, now)
	case eventFailing:
		if !c.gone {
			acts = append(acts, actFail(e))
		}
		acts = append(acts, c.launcherGone("", now)...)
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
	// What another failure set off can come to us before the failure itself: whoever had ended by then, or was killed by
	// somebody else, ended by itself.
	stopped := r.signalled && !e.early && (r.killed || e.signal != int(syscall.SIGKILL))
	exit := wire.Exit{Rank: e.rank, Code: e.code, Signal: e.signal, Core: e.core,
		Stopped: stopped, Aborted: r.aborted, MPI: e.mpi, At: now, Failed: e.failed, MaxRSS: e.maxRSS, CPU: e.cpu}
	if e.memory != nil && !stopped {
		exit.OutOfMemory, exit.MemoryLimit = outOfMemory(c.memory, *e.memory, c.blamed, e.maxRSS)
		if exit.OutOfMemory != "" {
			c.blamed++
		}
	}
	return []any{actReport{exit}}
}

// aborted is the word to the ranks that the job cannot go on. Of those that end by then it is not the reason.
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
	c.stopping, c.killAt, c.still = true, now+grace, false
	var acts []any
	for _, rank := range c.running() {
		c.ranks[rank].signalled = true
		// A stopped process must be continued to see the TERM.
		acts = append(acts, actSignal{rank, syscall.SIGTERM}, actSignal{rank, syscall.SIGCONT})
	}
	return append(acts, c.tick(now)...)
}

// suspend stops the ranks with their launcher, or lets them go on. The lease does not count meanwhile. Ranks are
// in sessions of their own, where the terminal's stop signal would have no effect.
func (c *core) suspend(still bool, now time.Duration) []any {
	c.heard = now
	var acts []any
	if c.still != still && !c.stopping { // who is to end must not stand still
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
	if !c.gone {
		c.lapsed = why
	}
	return c.launcherGone(why, now)
}

func (c *core) launcherGone(why string, now time.Duration) []any {
	if c.gone {
		return c.tick(now)
	}
	c.gone = true
	return append([]any{actAbandon{why}}, c.stop(min(c.grace, c.parting), now)...)
}

func (c *core) tick(now time.Duration) []any {
	if !c.gone && !c.still && now-c.heard > c.lease {
		return c.lapse(fmt.Sprintf("no word from gorun for %v", c.lease), now)
	}
	c.flushed = c.flushed || (c.stopping && now >= c.killAt+flushTime)
	if c.stopping && now >= c.killAt {
		if !c.killed {
			c.killed, c.stuckAt = true, now+stuckTime
		}
		c.stuck = now >= c.stuckAt
		for _, r := range c.ranks {
			r.signalled, r.killed = true, true
		}
		return []any{actKillTree{}}
	}
	return nil
}

// running are the ranks that have not ended, in their order: what the core does
// depends on its events alone.
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

// over reports whether every rank has ended, or cannot be ended, and its output is out, or has
// nowhere to go.
func (c *core) over() bool {
	if len(c.ranks) == 0 {
		return c.stopping
	}
	for _, r := range c.ranks {
		if (!r.exited && !c.stuck) || (r.streams > 0 && !c.gone && !c.flushed) {
			return false
		}
	}
	return true
}
