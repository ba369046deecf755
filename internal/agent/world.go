package agent

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/gorun/gorun/internal/agent/lookup"
	"github.com/gorun/gorun/internal/agent/spawn"
	"github.com/gorun/gorun/internal/rankenv"
)

// eventSpawn asks the loop to start a world unless ctx has ended.
type eventSpawn struct {
	ctx    context.Context
	world  *spawn.World
	answer chan error // takes one
}

var errEnding = errors.New("the job is ending")

// spawn starts the ranks of a world. It returns when they run.
func (a *agent) spawn(ctx context.Context, w *spawn.World) error {
	e := eventSpawn{ctx, w, make(chan error, 1)}
	go a.post(e) // the loop may wait for the rank that asks
	select {
	case err := <-e.answer:
		return err
	case <-ctx.Done():
	case <-a.ended:
	}
	return errEnding
}

// startWorld starts the ranks of a world where the rank that asks for them runs.
func (a *agent) startWorld(e eventSpawn) error {
	w, base := e.world, a.runs[e.world.By]
	programs, err := make([]*program, len(w.Programs)), error(nil)
	if e.ctx.Err() != nil || a.core.stopping || base == nil {
		err = errEnding
	}
	for i := 0; err == nil && i < len(programs); i++ {
		programs[i], err = base.spawned(w.Programs[i])
	}
	if err != nil {
		a.serves.Forget(w)
		return err
	}
	a.apply(eventRunning{w.Ranks, len(a.streams())})
	defer raiseScore()()
	a.cage.Limit(a.tasks * len(a.core.running()))
	for rank, number := range w.Ranks {
		place := rankenv.Rank{Job: a.job.ID, Rank: rank, Size: len(w.Ranks), LocalRank: rank, LocalSize: len(w.Ranks), CrossSize: 1, Nodes: 1,
			Host: a.job.Host, Addr: a.begun.Addrs[0], Addrs: a.begun.Addrs, Shares: w.Shares(), Encrypt: a.job.Encrypt,
			Interface: a.network.Name, NCCLInterfaces: a.network.NCCL}
		a.startOne(number, programs[w.ProgramOf(rank)], a.serves.DescribeSpawned(place))
	}
	a.wg.Go(a.bound)
	return nil
}

// spawned is a program that a rank of p starts.
func (p *program) spawned(asked spawn.Program) (*program, error) {
	if p.apart || p.singularity {
		return nil, errors.New("a rank in a container cannot start others there")
	}
	q := *p
	q.argv, q.env, q.seats = asked.Argv, maps.Clone(p.env), nil
	if asked.Dir != "" {
		q.dir = asked.Dir
		q.env["PWD"] = q.dir
	}
	for _, kv := range asked.Env {
		if name, value, _ := strings.Cut(kv, "="); !rankenv.Stale(name) {
			q.env[name] = value
		}
	}
	err := lookup.CheckDir(q.dir)
	if err == nil {
		q.path, err = q.find(q.argv)
	}
	return &q, err
}
