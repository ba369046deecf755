package launcher

import (
	"github.com/gorun/gorun/internal/net/wire"
)

// Pause is a request to suspend the ranks, as the launcher will be, or to resume them.
type Pause struct {
	Suspend bool
	// Suspended is closed when all hosts have confirmed that their ranks are suspended. A host may
	// never confirm.
	Suspended chan<- struct{}
}

// pausing is a pause in progress.
type pausing struct {
	suspended chan<- struct{}
	waiting   map[int]bool // indexes of hosts that have not confirmed
}

func (l *loop) pauseOrResume(p Pause) {
	if !p.Suspend {
		l.resetSilence() // agents were silent during the pause
		l.toAll(wire.TypeResume, nil)
		return
	}
	l.pause = pausing{p.Suspended, map[int]bool{}}
	for _, s := range l.policy.connected() {
		if l.policy.expected(s) {
			l.pause.waiting[s.Index] = true
		}
	}
	l.toAll(wire.TypeSuspend, nil)
	l.pause.without(-1)
}

// without records that no confirmation is expected from a host.
func (p *pausing) without(host int) {
	delete(p.waiting, host)
	if len(p.waiting) == 0 && p.suspended != nil {
		close(p.suspended)
		p.suspended = nil
	}
}
