package launcher

import (
	"github.com/gorun/gorun/internal/wire"
)

// Pause is a wish that the job stand still, with the launcher, or go on.
type Pause struct {
	Suspend bool
	// Told is closed when all hosts have said that their ranks stand still. A host may never.
	Told chan<- struct{}
}

type eventSuspended struct{ host int } // a host's ranks stand still

// pausing is a pause that hosts are being told of.
type pausing struct {
	told    chan<- struct{}
	waiting map[int]bool // hosts
}

func (j *job) pauseOrResume(p Pause) {
	if !p.Suspend {
		for _, s := range j.sessions {
			s.ResetSilence() // while we stood still nobody was heard
		}
		j.toAll(wire.TypeResume, nil)
		return
	}
	j.pause = pausing{p.Told, map[int]bool{}}
	for _, s := range j.sessions {
		if !j.core.settled(s.Index) {
			j.pause.waiting[s.Index] = true
		}
	}
	j.toAll(wire.TypeSuspend, nil)
	j.pause.without(-1)
}

// without strikes a host off the list.
func (p *pausing) without(host int) {
	delete(p.waiting, host)
	if len(p.waiting) == 0 && p.told != nil {
		close(p.told)
		p.told = nil
	}
}
