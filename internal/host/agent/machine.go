package agent

import (
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// Machine is an agent's decisions without a host, for simulations of whole jobs: they feed it
// events and carry out its actions. Times are on the agent's clock.
type Machine struct {
	core    *core
	effects Effects
}

// Effects carry out what a Machine decides.
type Effects interface {
	Signal(rank int, signal syscall.Signal) // signals the process group of a rank
	KillTree()                              // every process below the agent
	Report(wire.Exit)
	Fail(wire.Failing)
	Abandon() // the launcher is lost, or needs no more reports
	Finish()  // kill what is left, report done unless abandoned, end
}

// NewMachine is for an agent whose ranks have all just started.
func NewMachine(grace time.Duration, ranks []int, effects Effects, now time.Duration) *Machine {
	m := &Machine{newCore(defaultConfig(grace), now), effects}
	m.step(eventRunning{ranks, 2}, now)
	return m
}

func (m *Machine) step(e event, now time.Duration) {
	for _, act := range m.core.step(e, now) {
		switch act := act.(type) {
		case actSignal:
			m.effects.Signal(act.rank, act.signal)
		case actKillTree:
			m.effects.KillTree()
		case actReport:
			m.effects.Report(act.exit)
		case actFail:
			m.effects.Fail(act.failing)
		case actAbandon:
			m.effects.Abandon()
		case actFinish:
			m.effects.Finish()
		}
	}
}

// Frame takes a message of the launcher: a wire.Stop, a wire.Signal, or any other, which shows that
// it lives.
func (m *Machine) Frame(message any, now time.Duration) {
	m.step(eventHeard{}, now)
	switch message := message.(type) {
	case wire.Stop:
		m.step(eventStop{message.Grace}, now)
	case wire.Signal:
		m.step(eventSignal{message.Number}, now)
	}
}

// Aborted tells the ranks to abort; those in ending are ending already.
func (m *Machine) Aborted(ending []int, now time.Duration) {
	m.step(eventHeard{}, now)
	m.step(eventAborted{ending}, now)
}

// Exited reports that a rank was reaped. early is whether it ended before a signal to end reached
// it.
func (m *Machine) Exited(rank, code, signal int, early bool, now time.Duration) {
	m.step(eventExited{
		rank:   rank,
		code:   code,
		signal: signal,
		early:  early,
	}, now)
}

// Drained reports that one of a rank's two output streams has ended.
func (m *Machine) Drained(rank int, now time.Duration) { m.step(eventDrained{rank}, now) }

// Lost reports that the launcher's stream has ended.
func (m *Machine) Lost(now time.Duration) { m.step(eventLost{}, now) }

// Failing reports that the guard has exited, or that a signal ends the agent.
func (m *Machine) Failing(f wire.Failing, now time.Duration) { m.step(eventFailing{f}, now) }

// Tick reports that time has passed.
func (m *Machine) Tick(now time.Duration) { m.step(eventTick{}, now) }

// Wait is the time until the next Tick is due.
func (m *Machine) Wait(now time.Duration) time.Duration {
	wait, due := m.core.killWait(now)
	if !due {
		return tickTime
	}
	return min(wait, tickTime)
}
