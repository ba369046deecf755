package agent

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/lookup"
	"github.com/gorun/gorun/internal/host/spawn"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
)

// eventSpawn asks the loop to do something about ranks that are to be spawned, unless ctx has
// ended.
type eventSpawn struct {
	ctx    context.Context
	do     func() error
	answer chan error // takes one
}

var errEnding = errors.New("the job is ending")

// onLoop does something in the loop, for spawned ranks.
func (a *agent) onLoop(ctx context.Context, do func() error) error {
	e := eventSpawn{ctx, do, make(chan error, 1)}
	go a.post(e) // the loop may wait for the rank that asks
	select {
	case err := <-e.answer:
		return err
	case <-ctx.Done():
	case <-a.ended:
	}
	return errEnding
}

func (e eventSpawn) run(stopping bool) {
	if e.ctx.Err() != nil || stopping {
		e.answer <- errEnding
		return
	}
	e.answer <- e.do()
}

// maySpawn reports why a rank cannot start programs. Those that need not run here are looked for
// where they do.
func (a *agent) maySpawn(ctx context.Context, r wire.SpawnRequest) error {
	return a.onLoop(ctx, func() error {
		for _, p := range r.Programs {
			q, err := a.base(r.By).spawned(p)
			if err == nil && p.Host == "" {
				err = q.look()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// spawn starts the ranks of a world that belong here. It returns when they run, or their failure is
// reported.
func (a *agent) spawn(ctx context.Context, w *spawn.World) error {
	err := a.onLoop(ctx, func() error { a.startWorld(w); return nil })
	if err != nil {
		a.serves.Forget(w)
	}
	return err
}

func (a *agent) startWorld(w *spawn.World) {
	var numbers []int
	for _, rank := range w.Here {
		numbers = append(numbers, w.Numbers[rank])
	}
	a.apply(eventRunning{numbers, len(a.streams())})
	defer contain.RaiseScore()()
	a.cage.Limit(a.tasks * len(a.core.running()))
	programs := map[int]*program{}
	for local, rank := range w.Here {
		i := w.ProgramOf(rank)
		if programs[i] == nil {
			p, err := a.base(w.By).spawned(w.Programs[i])
			if err == nil {
				err = p.look()
			}
			if err != nil {
				a.apply(eventExited{
					rank:           numbers[local],
					code:           wire.CodeNotFound,
					outputFinished: true,
					failed:         err.Error(),
				})
				continue
			}
			programs[i] = p
		}
		place := rankenv.Rank{
			Job:            a.job.ID,
			Rank:           rank,
			Size:           len(w.Numbers),
			LocalRank:      local,
			LocalSize:      len(w.Here),
			CrossSize:      1,
			Nodes:          1,
			Host:           a.job.Host,
			Addr:           a.begun.Addrs[0],
			Addrs:          a.begun.Addrs,
			Shares:         w.Shares(),
			Encrypt:        a.job.Encrypt,
			AllNetworks:    a.job.AllNetworks,
			Interface:      a.network.Name,
			NCCLInterfaces: a.network.NCCL,
		}
		a.startOne(numbers[local], programs[i], a.serves.DescribeSpawned(place))
	}
	a.wg.Go(a.bound)
}

// base is the program of a rank of this host, or the one that stands for the ranks of other hosts.
func (a *agent) base(rank int) *program {
	if p := a.runs[rank]; p != nil {
		return p
	}
	return &a.progs[0]
}

// spawned is a program that a rank of p starts. Its path is not known yet.
func (p *program) spawned(asked wire.SpawnProgram) (*program, error) {
	if p.apart || p.singularity {
		return nil, errors.New("a rank in a container cannot start others there")
	}
	q := *p
	q.argv = nil
	q.env = maps.Clone(p.env)
	q.seats = nil
	for _, word := range asked.Argv {
		q.argv = append(q.argv, string(word))
	}
	if len(asked.Dir) > 0 {
		q.dir = string(asked.Dir)
		q.env["PWD"] = q.dir
	}
	for _, kv := range asked.Env {
		if name, value, _ := strings.Cut(string(kv), "="); !rankenv.Stale(name) {
			q.env[name] = value
		}
	}
	return &q, nil
}

// look finds the program.
func (p *program) look() (err error) {
	if err = lookup.CheckDir(p.dir); err == nil {
		p.path, err = p.find(p.argv)
	}
	return err
}
