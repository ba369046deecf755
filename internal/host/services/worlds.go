package services

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/mpi/pmi"
	"github.com/gorun/gorun/internal/mpi/pmix"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
)

// worldStore is the job's store with the fences of a world.
type worldStore struct {
	*relay
	world *World
}

func (s worldStore) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	return s.world.Fence(ctx, s.relay, name, rank, value)
}

// spawnPMI starts what a rank asks for over PMI-1.
func (s *Services) spawnPMI(ctx context.Context, by int, asked pmi.Spawn) error {
	r := wire.SpawnRequest{By: by, Given: map[string][]byte{}}
	for key, value := range asked.Given {
		r.Given[key] = []byte(value)
	}
	for _, p := range asked.Programs {
		r.Programs = append(r.Programs, wire.SpawnProgram{
			Argv:  p.Argv,
			Dir:   wire.Text(p.Info["wdir"]),
			Host:  p.Host(),
			Ranks: p.Ranks,
		})
	}
	_, err := s.spawn(ctx, r)
	return err
}

// spawnPMIx starts what a rank asks for over PMIx, and returns the name of its world.
func (s *Services) spawnPMIx(ctx context.Context, by int, programs []pmix.Program) (name string, err error) {
	r := wire.SpawnRequest{By: by}
	for _, p := range programs {
		r.Programs = append(r.Programs, wire.SpawnProgram{
			Argv:  p.Argv,
			Env:   p.Env,
			Dir:   wire.Text(p.Dir),
			Host:  p.Host,
			Ranks: p.Ranks,
		})
	}
	if othersBelow() {
		s.refused(r, errOther)
		return "", errOther
	}
	w, err := s.spawn(ctx, r)
	if err != nil {
		return "", err
	}
	return s.worldName(w), nil
}

// errOther is why a rank that has become another user spawns nothing.
var errOther = errors.New("it runs as another user, and what it spawns would run as gorun's")

// othersBelow reports whether a process below this one of root's runs as another user. Of a
// connection of PMIx the kernel says who has opened it, not who has spoken.
func othersBelow() bool {
	return os.Geteuid() == 0 && slices.ContainsFunc(contain.Descendants(os.Getpid()), func(below contain.Process) bool {
		p, err := process.Open(below.PID)
		if err == nil {
			p.Close()
		}
		return errors.As(err, new(*process.ForeignError))
	})
}

func (s *Services) worldName(w *World) string { return w.Name("gorun-" + s.job.ID) }

// spawn starts the ranks of a request. The user is told why it cannot: some programs wait for ever
// after the error.
func (s *Services) spawn(ctx context.Context, r wire.SpawnRequest) (*World, error) {
	w, err := s.ask(ctx, r)
	if err != nil {
		s.refused(r, err)
	}
	return w, err
}

// ask has the launcher place the ranks of a request, and returns when those of this host have been
// started. There is one request at a time: each comes back to this host, with all that a rank has
// asked for, and the launcher fails a host for which 64 MiB wait.
func (s *Services) ask(ctx context.Context, r wire.SpawnRequest) (*World, error) {
	if s.job.Elastic != nil {
		return nil, errors.New("an elastic job starts and ends its ranks itself")
	}
	if s.mpi.foreign(r.By) {
		return nil, errOther
	}
	if err := s.opts.MaySpawn(ctx, r); err != nil {
		return nil, err
	}
	select {
	case s.asking <- struct{}{}:
		defer func() { <-s.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.relay.ended:
		return nil, errEnded
	}
	id, answer := s.worlds.ask(r.By)
	defer s.worlds.drop(id)
	r.ID = id
	if err := s.relay.out.SendMessage(wire.TypeSpawn, r); err != nil {
		return nil, err
	}
	select {
	case a := <-answer:
		return a.World, a.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.relay.ended:
		return nil, errEnded
	}
}

// world begins a world, or hands a refusal to the rank that has asked. Worlds begin in their order,
// on all hosts.
func (s *Services) world(described wire.World) {
	if described.Refused != "" {
		s.worlds.answer(described, spawned{Err: errors.New(described.Refused)})
		return
	}
	before, done := s.worlds.takeTurn()
	s.mpi.wg.Go(func() {
		defer close(done)
		<-before
		w, err := s.worlds.add(described)
		if err == nil {
			err = s.begin(w)
		}
		s.worlds.answer(described, spawned{World: w, Err: err})
	})
}

// begin describes a world to MPI, and starts its ranks of this host.
func (s *Services) begin(w *World) error {
	if len(w.Here) > 0 {
		s.serveWorld(w)
	}
	if s.pmix != nil {
		programs := make([]int, len(w.Numbers))
		for rank := range programs {
			programs[rank] = w.ProgramOf(rank)
		}
		err := s.pmix.Add(s.mpi.ctx, pmix.World{
			Number:   w.Number,
			Numbers:  w.Numbers,
			By:       w.By,
			Job:      s.worldName(w),
			HostOf:   w.HostOf,
			Programs: programs,
		})
		if err != nil {
			s.Forget(w)
			return err
		}
	}
	if len(w.Here) == 0 {
		return nil
	}
	return s.opts.Spawn(s.mpi.ctx, w)
}

// serveWorld serves PMI-1 to the ranks of a world.
func (s *Services) serveWorld(w *World) {
	host := &pmi.Host{
		Name:     "kvs_" + w.Name(s.job.ID),
		Size:     len(w.Numbers),
		Universe: s.job.Spawn.Universe,
		Mapping:  pmi.Mapping(w.Nodes()),
		Programs: map[int]int{},
		Store:    worldStore{s.relay, w},
		Entered:  w.Enter,
		Aborted:  func(rank, code int) { s.mpi.aborted(w.Numbers[rank], code) },
		Spawn: func(ctx context.Context, rank int, asked pmi.Spawn) error {
			return s.spawnPMI(ctx, w.Numbers[rank], asked)
		},
	}
	given := map[string]string{}
	for key, value := range w.Given {
		given[key] = string(value)
	}
	host.Give(given)
	s.mpi.mu.Lock()
	defer s.mpi.mu.Unlock()
	for _, rank := range w.Here {
		host.Programs[rank] = w.ProgramOf(rank)
		s.mpi.places[w.Numbers[rank]] = place{host, rank}
	}
}

// Spawned lists the spawned ranks of this host that run, ascending.
func (s *Services) Spawned() []int { return s.worlds.numbers() }

// Forget frees the numbers of a world whose ranks were not started here.
func (s *Services) Forget(w *World) {
	for _, rank := range w.Here {
		s.forget(w.Numbers[rank])
	}
}

func (s *Services) forget(number int) {
	s.mpi.forget(number)
	s.worlds.ended(number)
}

// spawnedEnded records that a spawned rank has ended. One that has not called MPI_Init lets the
// rank that asked for it wait for ever.
func (s *Services) spawnedEnded(w *World, number int) {
	// A rank that was not started was not reaped, and its connection is open.
	s.mpi.finish(number)
	if !w.Came(w.RankOf(number)) {
		s.relay.send(wire.TypeLost, wire.Lost{
			By:      number,
			Rank:    number,
			Awaited: true,
			Waiter:  w.By,
			Cause:   fmt.Sprintf("it was spawned, and ended before MPI_Init, where rank %d waits for it", w.By),
		})
	}
	s.forget(number)
}

// entered records that a rank of PMIx has called MPI_Init.
func (s *Services) entered(number int) {
	if w := s.worlds.of(number); w != nil {
		w.Enter(w.RankOf(number))
		return
	}
	s.mpi.startup.enter(number)
}

// maxRefused bounds the notes about refused spawns.
const maxRefused = 8

// refused tells the user that a spawn fails.
func (s *Services) refused(r wire.SpawnRequest, why error) {
	n := 0
	for _, p := range r.Programs {
		n += p.Ranks
	}
	if s.noted.Add(1) <= maxRefused {
		s.relay.send(wire.TypeNote, wire.Note{By: r.By, Text: fmt.Sprintf("MPI_Comm_spawn of %d more ranks returns "+
			"an error: %v", n, why)})
	}
}

// DescribeSpawned adds the descriptor and the folder of the services to a spawned rank's
// description.
func (s *Services) DescribeSpawned(r rankenv.Rank) rankenv.Rank {
	r.MPI.FD = FirstFD
	r.MPI.Folder = s.folder
	return r
}
