package agent

import (
	"errors"
	"fmt"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/errand"
	"github.com/gorun/gorun/internal/host/inspect"
	"github.com/gorun/gorun/internal/host/lookup"
	"github.com/gorun/gorun/internal/net/wire"
)

// finish kills what the ranks left behind and reports done.
func (a *agent) finish() error {
	close(a.ended)
	if !a.core.stopping {
		a.errands.Linger()
	}
	a.errands.Close()
	a.procs.leave()
	limit := sweepTime
	if a.core.killed { // this is not the first kill
		limit = min(max(a.core.stuckAt-a.now(), lastSweepTime), sweepTime)
	}
	left := a.cage.Sweep(limit, a.procs.reap)
	a.cage.Remove()
	a.serves.Remove()
	if a.core.lost {
		// Writers may block for ever on a launcher that reads nothing: the process ends now. stderr
		// tells a launcher that comes back why.
		if a.core.lapsed != "" {
			return fmt.Errorf("ended the ranks: %s", a.core.lapsed)
		}
		return unkillable(left)
	}
	a.discard()
	a.cutOutput()
	a.wg.Wait()
	a.errands.Wait()
	return errors.Join(unkillable(left), a.out.SendMessage(wire.TypeDone, doneOf(left)))
}

// errandHost is what errands need.
func (a *agent) errandHost() errand.Host {
	h := errand.Host{
		Ready:  a.started,
		Stays:  a.job.Stay,
		Signal: a.procs.pass,
		PID:    a.procs.pid,
		Find:   lookup.Find,
		GPUs:   a.host.HasGPUs,
		Start: func(p errand.Process) error {
			return a.procs.start(startRequest{
				rank:     p.Key,
				path:     p.Path,
				argv:     p.Argv,
				env:      p.Env,
				dir:      p.Dir,
				files:    p.Files,
				terminal: p.Terminal,
			})
		},
	}
	h.Inspect = func(pids map[int]int, pulse bool) (string, []string) {
		return "/proc/self/exe", append([]string{"gorun", inspect.Command}, inspect.Args(pids, pulse)...)
	}
	own := map[int]bool{}
	for _, r := range a.job.Ranks {
		own[r.Rank] = true
	}
	h.Owns = func(rank int) bool { return own[rank] || a.job.Spawn.Has(rank) }
	h.Ranks = func() (ranks []int) {
		for _, r := range a.job.Ranks {
			ranks = append(ranks, r.Rank)
		}
		return append(ranks, a.serves.Spawned()...)
	}
	return h
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
