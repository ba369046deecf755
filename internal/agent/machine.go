package agent

import (
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/wire"
)

// Machine is what an agent decides, without a host: simulations of whole jobs
// tell it what comes and do what it says. Times are on the agent's clock.
type Machine struct {
	core  *core
	hands Hands
}

// Hands do what a Machine decides.
type Hands interface {
	Signal(rank int, signal syscall.Signal) // to a rank's process group
	KillTree()                              // every process below the agent
	Report(wire.Exit)
	Fail(wire.Failing)
	Abandon() // the launcher is gone, or need not be told of more
	Finish()  // kill what is left, say done unless abandoned, end
}

// NewMachine is for an agent whose ranks have all just started.
func NewMachine(grace time.Duration, ranks []int, hands Hands, now time.Duration) *Machine {
	m := &Machine{newCore(grace), hands}
	m.core.heard = now
	m.step(eventRunning{ranks}, now)
	return m
}

func (m *Machine) step(event any, now time.Duration) {
	for _, act := range m.core.step(event, now) {
		switch act := act.(type) {
		case actSignal:
			m.hands.Signal(act.rank, act.signal)
		case actKillTree:
			m.hands.KillTree()
		case actReport:
			m.hands.Report(act.exit)
		case actFail:
			m.hands.Fail(act.failing)
		case actAbandon:
			m.hands.Abandon()
		case actFinish:
			m.hands.Finish()
		}
	}
}

// Frame takes what the launcher sent: a wire.Stop or wire.Signal, or anything else, which shows that it lives.
func (m *Machine) Frame(message any, now time.Duration) {
	m.step(eventHeard{}, now)
	switch message := message.(type) {
	case wire.Stop:
		m.step(eventStop{message.Grace}, now)
	case wire.Signal:
		m.step(eventSignal{message.Number}, now)
	}
}

// Aborted says that the launcher has the ranks told to abort, some of which end already.
func (m *Machine) Aborted(ending []int, now time.Duration) {
	m.step(eventHeard{}, now)
	m.step(eventAborted{ending}, now)
}

// Exited says that a rank was reaped, and whether it had ended before a signal to end reached it.
func (m *Machine) Exited(rank, code, signal int, early bool, now time.Duration) {
	m.step(eventExited{rank: rank, code: code, signal: signal, early: early}, now)
}

// Drained says that one of a rank's two output streams has ended.
func (m *Machine) Drained(rank int, now time.Duration) { m.step(eventDrained{rank}, now) }

// Gone says that the launcher's stream has ended.
func (m *Machine) Gone(now time.Duration) { m.step(eventGone{"EOF"}, now) }

// Failing says that the guard is gone, or that the agent is told to end by a signal.
func (m *Machine) Failing(f wire.Failing, now time.Duration) { m.step(eventFailing{f}, now) }

// Tick says that time has passed.
func (m *Machine) Tick(now time.Duration) { m.step(eventTick{}, now) }

// Wait is how long until the next Tick must come.
func (m *Machine) Wait(now time.Duration) time.Duration {
	if !m.core.stopping {
		return tickTime
	}
	return min(max(m.core.killAt-now, killPoll), tickTime)
}
