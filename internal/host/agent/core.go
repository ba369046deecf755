package agent

import (
	"cmp"
	"fmt"
	"slices"
	"syscall"
	"time"

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
	// sweepTime bounds the kill of what is left when the ranks have ended, lastSweepTime is its
	// minimum. The launcher waits for 3 s after the grace.
	sweepTime     = 2 * time.Second
	lastSweepTime = 300 * time.Millisecond
	killPoll      = 20 * time.Millisecond
)

type (
	// event is what the core decides on. step returns what to do, in order.
	event interface {
		step(c *core, now time.Duration) []action
	}

	eventExited struct { // a rank was reaped
		rank           int
		code, signal   int
		core           bool
		failed         string // why it could not be started
		remedy         string // next step for the user
		outputFinished bool   // it has no output
		maxRSS         int64
		cpu            time.Duration
		mpi            wire.MPIEnd
		asked          int            // the code given to MPI_Abort
		at             time.Duration  // time of its failure, if earlier than its end
		early          bool           // it ended before a signal to end reached it
		memory         *memoryReading // reading after an end that lack of memory may explain, or nil
	}
	eventDrained struct{ rank int }             // one of a rank's output streams ended
	eventStop    struct{ grace time.Duration }  // the launcher wants the job ended
	eventSignal  struct{ signal int }           // the launcher passes a signal on
	eventLost    struct{}                       // the launcher is lost
	eventFailing struct{ failing wire.Failing } // the guard has exited, or the agent was signalled
	eventEpoch   struct{}                       // an elastic job goes on after an abort
	eventAborted struct{ ending []int }         // ranks are told to abort, and some are ending
	eventHeard   struct{}                       // a frame from the launcher, or none could be read
	eventTick    struct{}                       // time passed
	eventReading struct{ reading lineReading }  // state of the connection to the launcher
	eventSuspend struct{ suspended bool }       // the launcher is about to be suspended, or goes on
	eventRunning struct {                       // these ranks were started, or an eventExited follows
		ranks   []int
		streams int // output streams of each rank
	}
)

type (
	// action is what the core decides.
	action interface{ isAction() }

	actSignal struct { // a signal to a rank's process group
		rank   int
		signal syscall.Signal
	}
	actKillTree struct{}                       // KILL to every descendant
	actStopped  struct{}                       // report that the ranks are suspended
	actReport   struct{ exit wire.Exit }       // report a rank's end
	actFail     struct{ failing wire.Failing } // report why the agent ends
	actAbandon  struct{}                       // stop writing to the launcher
	actFinish   struct{}                       // sweep, report done, end
)

func (actSignal) isAction()   {}
func (actKillTree) isAction() {}
func (actStopped) isAction()  {}
func (actReport) isAction()   {}
func (actFail) isAction()     {}
func (actAbandon) isAction()  {}
func (actFinish) isAction()   {}

type rankState struct {
	exited    bool
	aborted   bool // it was told to abort, which may be why it ends
	signalled bool // TERM or KILL was sent
	killed    bool // KILL was sent
	streams   int  // output streams still open
}

// coreConfig is what a core knows before the ranks start.
type coreConfig struct {
	grace     time.Duration // time between TERM and KILL
	lostGrace time.Duration // bounds the grace when the launcher is lost
	lease     time.Duration // the launcher's longest silence
	growing   bool          // the job may add ranks as long as it runs
	memory    memoryReading // memory before the ranks start
}

// defaultConfig is that of a job that is not elastic.
func defaultConfig(grace time.Duration) coreConfig {
	return coreConfig{grace: grace, lostGrace: lostGrace, lease: Lease}
}

// core is the state of one agent from Start to the end of its ranks.
type core struct {
	coreConfig
	ranks     map[int]*rankState
	stopping  bool
	lost      bool          // the launcher is lost
	lostWhy   string        // why it counts as lost although its stream has not ended
	flushed   bool          // the rest of the output has waited long enough
	killed    bool          // some rank got KILL
	stuckAt   time.Duration // when killed: from then on, ranks that still exist cannot be killed
	stuck     bool
	finished  bool
	killAt    time.Duration // time of the KILL, while stopping
	heard     time.Duration // time of the launcher's last frame
	network   networkMonitor
	suspended bool  // the user suspended the launcher, and with it the ranks
	blamed    int64 // number of ranks that ran out of memory
}

func newCore(config coreConfig, now time.Duration) *core {
	return &core{coreConfig: config, ranks: map[int]*rankState{}, heard: now}
}

// isFinished reports whether nothing is left to decide.
func (c *core) isFinished() bool { return c.finished }

// isStopping reports whether the ranks are being ended.
func (c *core) isStopping() bool { return c.stopping }

// mayStart reports whether the job's ranks can be started: once, and not while stopping.
func (c *core) mayStart() bool { return len(c.ranks) == 0 && !c.stopping }

// launcherLost reports whether the launcher is lost, and why unless its stream has ended.
func (c *core) launcherLost() (why string, lost bool) { return c.lostWhy, c.lost }

// killWait is the time until a kill is due, or has to be repeated.
func (c *core) killWait(now time.Duration) (wait time.Duration, due bool) {
	return max(c.killAt-now, killPoll), c.stopping
}

// sweepLimit bounds the last kill. It is shorter where ranks were killed before.
func (c *core) sweepLimit(now time.Duration) time.Duration {
	if !c.killed {
		return sweepTime
	}
	return min(max(c.stuckAt-now, lastSweepTime), sweepTime)
}

// step takes one event at time now and returns what to do, in order.
func (c *core) step(e event, now time.Duration) []action {
	if c.finished {
		return nil
	}
	acts := e.step(c, now)
	if c.over() {
		c.finished = true
		acts = append(acts, actFinish{})
	}
	return acts
}

func (e eventStop) step(c *core, now time.Duration) []action { return c.stop(e.grace, now) }
func (eventLost) step(c *core, now time.Duration) []action   { return c.loseLauncher(now) }
func (eventTick) step(c *core, now time.Duration) []action   { return c.tick(now) }

func (e eventRunning) step(c *core, _ time.Duration) []action {
	for _, rank := range e.ranks {
		c.ranks[rank] = &rankState{streams: e.streams}
	}
	return nil
}

func (eventHeard) step(c *core, now time.Duration) []action {
	c.heard = now
	return nil
}

func (e eventDrained) step(c *core, _ time.Duration) []action {
	if r := c.ranks[e.rank]; r != nil {
		r.streams--
	}
	return nil
}

func (e eventSignal) step(c *core, _ time.Duration) []action {
	return c.signalAll(syscall.Signal(e.signal))
}

func (e eventReading) step(c *core, now time.Duration) []action {
	if silent := c.network.dead(e.reading, now); silent > 0 {
		return c.loseSilentLauncher(describeDeath(silent), now)
	}
	return nil
}

// What fails here may be what a rank ends of, so it is no reason by itself that it ends.
func (e eventFailing) step(c *core, now time.Duration) (acts []action) {
	if !c.lost {
		acts = append(acts, actFail(e))
	}
	for _, rank := range c.running() {
		c.ranks[rank].aborted = true
	}
	return append(acts, c.loseLauncher(now)...)
}

func (eventEpoch) step(c *core, _ time.Duration) []action {
	for _, rank := range c.running() {
		c.ranks[rank].aborted = false
	}
	return nil
}

// The abort is not the reason for which the ranks in ending end.
func (e eventAborted) step(c *core, _ time.Duration) []action {
	for _, rank := range c.running() {
		c.ranks[rank].aborted = c.ranks[rank].aborted || !slices.Contains(e.ending, rank)
	}
	return nil
}

// The ranks stop with their launcher, and go on with it. The lease does not run meanwhile. The
// terminal's stop signal does not reach ranks, which are in other sessions.
func (e eventSuspend) step(c *core, now time.Duration) (acts []action) {
	c.heard = now
	if c.suspended != e.suspended && !c.stopping { // a rank that must end has to run
		c.suspended = e.suspended
		signal := syscall.SIGCONT
		if e.suspended {
			signal = syscall.SIGSTOP
		}
		acts = c.signalAll(signal)
	}
	if e.suspended {
		acts = append(acts, actStopped{})
	}
	return acts
}

func (e eventExited) step(c *core, now time.Duration) []action {
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
		Remedy:  e.remedy,
		MaxRSS:  e.maxRSS,
		CPU:     e.cpu,
	}
	if e.memory != nil && !stopped {
		exit.OutOfMemory, exit.MemoryLimit = outOfMemory(c.memory, *e.memory, c.blamed, e.maxRSS)
		if exit.OutOfMemory != "" {
			c.blamed++
		}
	}
	return []action{actReport{exit}}
}

// stop asks every rank to end and sets the time of the kill. Asked again it can
// only make that time earlier.
func (c *core) stop(grace, now time.Duration) []action {
	if c.stopping {
		c.killAt = min(c.killAt, now+grace)
		return c.tick(now)
	}
	c.stopping = true
	c.killAt = now + grace
	c.suspended = false
	var acts []action
	for _, rank := range c.running() {
		c.ranks[rank].signalled = true
		// A stopped process must be continued to see the TERM.
		acts = append(acts, actSignal{rank, syscall.SIGTERM}, actSignal{rank, syscall.SIGCONT})
	}
	return append(acts, c.tick(now)...)
}

func (c *core) loseSilentLauncher(why string, now time.Duration) []action {
	if !c.lost {
		c.lostWhy = why
	}
	return c.loseLauncher(now)
}

func (c *core) loseLauncher(now time.Duration) []action {
	if c.lost {
		return c.tick(now)
	}
	c.lost = true
	return append([]action{actAbandon{}}, c.stop(min(c.grace, c.lostGrace), now)...)
}

func (c *core) tick(now time.Duration) []action {
	if !c.lost && !c.suspended && now-c.heard > c.lease {
		return c.loseSilentLauncher(fmt.Sprintf("no word from gorun for %v", c.lease), now)
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
		return []action{actKillTree{}}
	}
	return nil
}

// signalAll sends a signal to every rank that runs.
func (c *core) signalAll(signal syscall.Signal) (acts []action) {
	for _, rank := range c.running() {
		acts = append(acts, actSignal{rank, signal})
	}
	return acts
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
	if !c.stopping && (c.growing || len(c.ranks) == 0) {
		return false
	}
	for _, r := range c.ranks {
		if (!r.exited && !c.stuck) || (r.streams > 0 && !c.lost && !c.flushed) {
			return false
		}
	}
	return true
}
