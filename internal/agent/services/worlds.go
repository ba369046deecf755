package services

import (
	"context"
	"errors"
	"fmt"

	"github.com/gorun/gorun/internal/agent/spawn"
	"github.com/gorun/gorun/internal/pmi"
	"github.com/gorun/gorun/internal/pmix"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/wire"
)

// worldStore is the job's store with the fences of a world, which is on one host.
type worldStore struct {
	*relay
	world *spawn.World
}

func (s worldStore) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	return s.world.Fence(ctx, name, rank, value)
}

// spawnPMI starts what a rank asks for over PMI-1.
func (s *Services) spawnPMI(ctx context.Context, by int, asked pmi.Spawn) error {
	r := spawn.Request{By: by}
	for _, p := range asked.Programs {
		r.Programs = append(r.Programs, spawn.Program{Argv: p.Argv, Dir: p.Info["wdir"], Host: p.Info["host"], Ranks: p.Ranks})
	}
	_, err := s.spawn(ctx, r, asked.Given)
	return err
}

// spawnPMIx starts what a rank asks for over PMIx, and returns the name of its world.
func (s *Services) spawnPMIx(ctx context.Context, by int, programs []pmix.Program) (name string, err error) {
	r := spawn.Request{By: by}
	for _, p := range programs {
		r.Programs = append(r.Programs, spawn.Program(p))
	}
	w, err := s.spawn(ctx, r, nil)
	if err != nil {
		return "", err
	}
	return s.worldName(w), nil
}

func (s *Services) worldName(w *spawn.World) string { return w.Name("gorun-" + s.job.ID) }

// spawn starts the ranks of a request, which can get the given values. The user is told why it cannot: some programs wait for ever after
// the error.
func (s *Services) spawn(ctx context.Context, r spawn.Request, given map[string]string) (w *spawn.World, err error) {
	if w, err = s.open(ctx, r, given); err == nil {
		err = s.opts.Spawn(ctx, w)
	}
	if err != nil {
		s.refused(r, err)
	}
	return w, err
}

// open makes the world of a request.
func (s *Services) open(ctx context.Context, r spawn.Request, given map[string]string) (*spawn.World, error) {
	if s.job.Elastic != nil {
		return nil, errors.New("an elastic job starts and ends its ranks itself")
	}
	w, err := s.book.Open(r)
	if err != nil {
		return nil, err
	}
	host := &pmi.Host{Name: "kvs_" + w.Name(s.job.ID), Size: len(w.Ranks), Universe: s.job.Spawn.Universe, Mapping: pmi.Mapping(make([]int, len(w.Ranks))),
		Programs: map[int]int{}, Store: worldStore{s.relay, w}, Entered: w.Enter,
		Aborted: func(rank, code int) { s.mpi.aborted(w.Ranks[rank], code) },
		Spawn: func(ctx context.Context, rank int, asked pmi.Spawn) error {
			return s.spawnPMI(ctx, w.Ranks[rank], asked)
		}}
	host.Give(given)
	programs := make([]int, len(w.Ranks))
	for rank := range w.Ranks {
		programs[rank] = w.ProgramOf(rank)
		host.Programs[rank] = programs[rank]
	}
	s.mpi.mu.Lock()
	for rank, number := range w.Ranks {
		s.mpi.places[number] = place{host, rank}
	}
	s.mpi.mu.Unlock()
	if s.pmix == nil {
		return w, nil
	}
	err = s.pmix.Add(ctx, pmix.World{Number: w.Number, Numbers: w.Ranks, By: r.By,
		Layout: pmix.Layout{Job: s.worldName(w), Folder: s.folder, Hosts: []string{s.job.Host}, HostOf: make([]int, len(w.Ranks)), Programs: programs, Universe: s.job.Spawn.Universe}})
	if err != nil {
		s.Forget(w)
	}
	return w, err
}

// Forget frees the numbers of a world whose ranks were not started.
func (s *Services) Forget(w *spawn.World) {
	for _, number := range w.Ranks {
		s.forget(number)
	}
}

func (s *Services) forget(number int) {
	s.mpi.forget(number)
	s.book.Ended(number)
}

// spawnedEnded records that a spawned rank has ended. One that has not called MPI_Init lets the rank that asked for it wait for ever.
func (s *Services) spawnedEnded(w *spawn.World, number int) {
	s.mpi.finish(number) // of a rank that was not started
	if !w.Came(w.RankOf(number)) {
		s.relay.send(wire.TypeLost, wire.Lost{By: number, Rank: number, Awaited: true,
			Cause: fmt.Sprintf("it was spawned, and ended before MPI_Init, where rank %d waits for it", w.By)})
	}
	s.forget(number)
}

// entered records that a rank of PMIx has called MPI_Init.
func (s *Services) entered(number int) {
	if w := s.book.Of(number); w != nil {
		w.Enter(w.RankOf(number))
		return
	}
	s.mpi.startup.enter(number)
}

// maxRefused bounds the notes about refused spawns.
const maxRefused = 8

// refused tells the user that a spawn fails.
func (s *Services) refused(r spawn.Request, why error) {
	s.tell(r.By, fmt.Sprintf("MPI_Comm_spawn of %d more ranks returns an error: %v", r.Count(), why))
}

// apart tells the user why ranks of several hosts cannot join spawned ones.
func (s *Services) apart(rank int) {
	s.tell(rank, "with Open MPI only ranks of one host can spawn others together or connect to them: let a rank spawn alone, with MPI_COMM_SELF")
}

func (s *Services) tell(by int, text string) {
	if s.told.Add(1) <= maxRefused {
		s.relay.send(wire.TypeNote, wire.Note{By: by, Text: text})
	}
}

// DescribeSpawned adds to a spawned rank's description where it reaches the services.
func (s *Services) DescribeSpawned(r rankenv.Rank) rankenv.Rank {
	r.PMIFD, r.OpenMPIFolder = FirstFD, s.folder
	return r
}
