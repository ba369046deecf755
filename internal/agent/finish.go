package agent

import (
	"errors"
	"fmt"

	"github.com/gorun/gorun/internal/contain"
	"github.com/gorun/gorun/internal/wire"
)

// finish kills what the ranks left behind and reports done.
func (a *agent) finish() error {
	close(a.ended)
	a.procs.leave()
	limit := sweepTime
	if a.core.killed { // this is not the first kill
		limit = min(max(a.core.stuckAt-a.now(), lastSweepTime), sweepTime)
	}
	left := a.cage.Sweep(limit, a.procs.reap)
	a.cage.Remove()
	a.serves.Remove()
	if a.core.lost {
		// Writers may block for ever on a launcher that reads nothing: the process ends now. stderr tells a launcher that comes back
		// why.
		if a.core.lapsed != "" {
			return fmt.Errorf("ended the ranks: %s", a.core.lapsed)
		}
		return unkillable(left)
	}
	a.discard()
	a.cutOutput()
	a.wg.Wait()
	return errors.Join(unkillable(left), a.out.SendMessage(wire.TypeDone, doneOf(left)))
}

// doneOf is the last report of a host.
func doneOf(left []contain.Process) (done wire.Done) {
	for _, p := range left[:min(len(left), wire.MaxUnkillable)] {
		done.Unkillable = append(done.Unkillable, wire.Process{PID: p.PID, Name: p.Name, State: string(p.State)})
	}
	return done
}

// cutOutput closes the pipes of ranks that could not be killed. Those of the others have ended.
func (a *agent) cutOutput() {
	for rank, r := range a.core.ranks {
		if !r.exited {
			a.rankEnded(rank)
		}
	}
}
