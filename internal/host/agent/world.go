package agent

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/services"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
)

var errEnding = errors.New("the job is ending")

// onLoop does something in the loop, for spawned ranks, unless ctx or the job ends before.
func (a *agent) onLoop(ctx context.Context, do func() error) error {
	answer := make(chan error, 1)
	go a.post(func() { // the loop may wait for the rank that asks
		if ctx.Err() != nil || a.core.isStopping() {
			answer <- errEnding
			return
		}
		answer <- do()
	})
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	case <-a.ended:
	}
	return errEnding
}

// maySpawn reports why a rank cannot start programs.
func (a *agent) maySpawn(ctx context.Context, r wire.SpawnRequest) error {
	return a.onLoop(ctx, func() error { return a.starter.maySpawn(r) })
}

// spawn starts the ranks of a world that belong here. It returns when they run, or their failure is
// reported.
func (a *agent) spawn(ctx context.Context, w *services.World) error {
	err := a.onLoop(ctx, func() error {
		a.starter.startWorld(w, len(a.core.running()))
		return nil
	})
	if err != nil {
		a.services.Forget(w)
	}
	return err
}

// maySpawn looks for the programs of a request, but for those that run on another host, where they
// are looked for.
func (s *starter) maySpawn(r wire.SpawnRequest) error {
	for _, p := range r.Programs {
		q, err := s.parent(r.By).spawned(p)
		if err == nil && p.Host == "" {
			err = q.look()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// startWorld starts the ranks of a world that belong here, in addition to some that run.
func (s *starter) startWorld(w *services.World, others int) {
	var numbers []int
	for _, rank := range w.Here {
		numbers = append(numbers, w.Numbers[rank])
	}
	s.step(eventRunning{numbers, len(s.streams.outputs)})
	defer contain.RaiseScore()()
	s.cage.Limit(s.tasks * (others + len(numbers)))
	programs := map[int]*program{}
	for local, rank := range w.Here {
		i := w.ProgramOf(rank)
		if programs[i] == nil {
			p, err := s.parent(w.By).spawned(w.Programs[i])
			if err == nil {
				err = p.look()
			}
			if err != nil {
				s.fail(numbers[local], err)
				continue
			}
			programs[i] = p
		}
		place := rankenv.Rank{
			Job:       s.job.ID,
			Rank:      rank,
			Size:      len(w.Numbers),
			LocalRank: local,
			LocalSize: len(w.Here),
			CrossSize: 1,
			Nodes:     1,
			Host:      s.job.Host,
			Addr:      s.begun.Addrs[0],
			Addrs:     s.begun.Addrs,
			Shares:    w.Shares(),
			Network:   s.networks(),
		}
		s.startOne(numbers[local], programs[i], s.services.DescribeSpawned(place))
	}
	s.wg.Go(s.bound)
}

// parent is the program of a rank of this host, or the one that stands for the ranks of other
// hosts.
func (s *starter) parent(rank int) *program {
	if p := s.running[rank]; p != nil {
		return p
	}
	return &s.programs[0]
}

// spawned is a program that a rank of p starts. Its path is not known yet.
func (p *program) spawned(asked wire.SpawnProgram) (*program, error) {
	if p.withoutFiles || p.singularity {
		return nil, errors.New("a rank in a container cannot start others there")
	}
	q := *p
	q.argv = slices.Clone(asked.Argv)
	q.env = maps.Clone(p.env)
	q.seats = nil
	if asked.Dir != "" {
		q.place.Dir = string(asked.Dir)
		q.env["PWD"] = q.place.Dir
	}
	for _, kv := range asked.Env {
		if name, value, _ := strings.Cut(kv, "="); !rankenv.Stale(name) {
			q.env[name] = value
		}
	}
	return &q, nil
}

func (p *program) look() (err error) {
	if err = p.place.CheckDir(); err == nil {
		p.path, err = p.find(p.argv)
	}
	return err
}
