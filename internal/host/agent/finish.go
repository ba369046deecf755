package agent

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/errand"
	"github.com/gorun/gorun/internal/host/inspect"
	"github.com/gorun/gorun/internal/host/lookup"
	"github.com/gorun/gorun/internal/net/wire"
)

// finish kills what the ranks left behind and reports done.
func (a *agent) finish() error {
	close(a.ended)
	if !a.core.isStopping() {
		a.errands.Linger()
	}
	a.errands.Close()
	a.procs.leave()
	left := a.cage.Sweep(a.core.sweepLimit(a.now()), a.procs.reap)
	a.cage.Remove()
	a.services.Remove()
	if why, lost := a.core.launcherLost(); lost {
		// Writers may block for ever on a launcher that reads nothing: the process ends now. stderr
		// tells a launcher that comes back why.
		if why != "" {
			return fmt.Errorf("ended the ranks: %s", why)
		}
		return unkillable(left)
	}
	a.streams.discard()
	for _, rank := range a.core.running() { // those that cannot be killed hold their pipes open
		a.streams.rankEnded(rank)
	}
	a.streams.wg.Wait()
	a.starter.wg.Wait()
	a.wg.Wait()
	a.errands.Wait()
	return errors.Join(unkillable(left), a.out.SendMessage(wire.TypeDone, doneOf(left)))
}

// errandHost gives errands access to the agent.
func (a *agent) errandHost() errand.Host {
	own := map[int]bool{}
	for _, r := range a.job.Ranks {
		own[r.Rank] = true
	}
	return errand.Host{
		Ready: a.started,
		Stays: a.job.Stay,
		Signal: func(rank int, signal syscall.Signal) bool {
			return a.procs.signal(processKey{rankProcess, rank}, signal)
		},
		SignalProcess: func(id uint32, signal syscall.Signal) {
			a.procs.signal(processKey{errandProcess, int(id)}, signal)
		},
		PID: a.procs.pid,
		Find: func(name, dir, path string) (string, error) {
			return lookup.Place{Dir: dir}.Find(name, path)
		},
		GPUs: a.host.HasGPUs,
		Start: func(p errand.Process) error {
			return a.procs.start(startRequest{
				key:      processKey{errandProcess, int(p.ID)},
				path:     p.Path,
				argv:     p.Argv,
				env:      p.Env,
				dir:      p.Dir,
				files:    p.Files,
				terminal: p.Terminal,
				owner:    p.Owner,
			})
		},
		Inspect: func(pids map[int]int, pulse bool) (string, []string) {
			return "/proc/self/exe", append([]string{"gorun", inspect.Command}, inspect.Args(pids, pulse)...)
		},
		Owns: func(rank int) bool { return own[rank] || a.job.Spawn.Has(rank) },
		Ranks: func() (ranks []int) {
			for _, r := range a.job.Ranks {
				ranks = append(ranks, r.Rank)
			}
			return append(ranks, a.services.Spawned()...)
		},
	}
}

// doneOf returns the last report of a host. left are processes that cannot be killed.
func doneOf(left []contain.Process) (done wire.Done) {
	for _, p := range left[:min(len(left), wire.MaxUnkillable)] {
		done.Unkillable = append(done.Unkillable, wire.Process{PID: p.PID, Name: p.Name, State: string(p.State)})
	}
	return done
}
