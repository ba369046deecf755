// Package services serves an agent's ranks on loopback: the rank server with the job's store and
// epochs, PMI-1 for MPI programs, and Horovod's rendezvous. What they cannot answer themselves goes
// to the launcher as frames.
package services

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/linkage"
	"github.com/gorun/gorun/internal/mpi/pmix"
	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
)

// Services serves the ranks of one job on this host.
type Services struct {
	job    wire.Job
	relay  *relay
	epochs *epochs // nil: the job is not elastic
	server *kv.Server
	gloo   *rendezvous
	mpi    *mpi
	folder string       // folder for shared memory of MPI's ranks, or ""
	ompi4  *os.File     // the library for Open MPI 4's ranks, or nil
	pmix   *pmix.Server // server of PMIx, or nil
	worlds *registry
	asking chan struct{} // holds an element while the launcher is asked for a world
	opts   Options
	noted  atomic.Int32 // number of notes about refused spawns
	// watches: ranks may load an MPI that is not served.
	watches bool
	tokens  map[int]string // by rank
}

// Options are the settings of services beside the job.
type Options struct {
	Out          *wire.Writer
	Addresses    []wire.Address // addresses of this host
	Guard        contain.Guard
	WithoutFiles bool           // some rank is in a container that inherits no open files
	Kill         func(rank int) // ends a rank that called MPI_Abort
	MPI          MPI
	Broken       func(error) // reports that a process that serves ranks has failed
	// Start starts such a process in a folder.
	Start func(path, dir string, argv, env []string, files []*os.File) error
	// starts the ranks of a world here, and calls Forget if it cannot
	Spawn    func(ctx context.Context, w *World) error
	MaySpawn func(ctx context.Context, r wire.SpawnRequest) error // reports why a rank cannot start programs
}

// Open serves the ranks of job until Close.
func Open(job wire.Job, o Options) (*Services, error) {
	s := &Services{
		job:     job,
		watches: (o.MPI.Unknown || o.MPI.Guess) && leads(job),
		relay:   newRelay(o.Out, len(job.Ranks), job.Size),
		tokens:  map[int]string{},
		worlds:  newRegistry(job.Spawn),
		asking:  make(chan struct{}, 1),
		opts:    o,
	}
	ranks := map[string]kv.JobInfo{}
	for _, r := range job.Ranks {
		token := rand.Text()
		s.tokens[r.Rank] = token
		ranks[token] = kv.JobInfo{
			Job:   job.ID,
			Epoch: job.Epoch,
			Rank:  r.Rank,
			Size:  job.Size,
			Key:   job.Key,
		}
	}
	var backend kv.Backend = s.relay
	if job.Elastic != nil {
		s.relay.share = kv.NewShare(job.Elastic.Slots) // each process of the host has an agent
		s.epochs = newEpochs(s.relay, job)
		backend = s.epochs
	}
	var err error
	if s.server, err = kv.OpenServer(ranks, backend); err != nil {
		return nil, err
	}
	if s.mpi, err = newMPI(job, s.relay, o.WithoutFiles, s.relay.send, o.Kill); err != nil {
		s.server.Close()
		return nil, err
	}
	s.mpi.host.Spawn = s.spawnPMI
	if s.gloo, err = openRendezvous(job, s.relay, s.epochs, o.Addresses); err == nil {
		err = s.openMPI(o)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close ends every request of a rank and waits until none is served.
func (s *Services) Close() {
	if s.pmix != nil {
		s.pmix.Close()
	}
	s.Remove()
	s.relay.end()
	if s.gloo != nil {
		s.gloo.close()
	}
	s.mpi.close()
	s.server.Close()
}

// Remove removes what the services have put on this host's file systems. It waits for no request.
func (s *Services) Remove() {
	if s.ompi4 != nil {
		s.ompi4.Close()
	}
	if s.folder != "" {
		_ = os.RemoveAll(s.folder)
	}
}

// Frame handles a launcher's frame that answers or leads ranks.
func (s *Services) Frame(f wire.Frame) error {
	switch f.Type {
	case wire.TypeFenced:
		return wire.Handle(f, func(m wire.Fence) error {
			if wire.IsMPIFence(m.Name) {
				s.mpi.startup.end()
			}
			s.relay.fenced(m)
			return nil
		})
	case wire.TypeValue:
		return wire.Handle(f, func(m wire.Value) error { s.relay.value(m); return nil })
	case wire.TypeWorld:
		return wire.Handle(f, func(m wire.World) error { s.world(m); return nil })
	}
	switch {
	case s.epochs == nil:
		return &wire.FormatError{Reason: fmt.Sprintf("the launcher sent a %s frame, but the job is not elastic",
			f.Type)}
	case f.Type == wire.TypeInterrupt:
		return wire.Handle(f, func(i wire.Interrupt) error { s.epochs.interrupt(i); return nil })
	}
	return wire.Handle(f, func(e wire.Epoch) error { s.epochs.begin(e); return nil })
}

// Abort informs the ranks that the job has failed.
func (s *Services) Abort(why wire.Abort) {
	if s.epochs != nil {
		s.epochs.abort(why)
	} else {
		s.relay.abort(why)
	}
}

// RankEnded records that a rank reaches no more fences.
func (s *Services) RankEnded(rank int) {
	if w := s.worlds.of(rank); w != nil {
		s.spawnedEnded(w, rank)
		return
	}
	s.relay.rankEnded(rank)
	// A rank that was not started was not reaped, and its connection is open.
	s.mpi.finish(rank)
	s.mpi.startup.rankEnded(rank)
}

// End reports how MPI sees the end of a rank with an exit code or signal: a rank that called
// MPI_Abort ended with another code.
func (s *Services) End(rank, code, signal int) End { return s.mpi.end(rank, code, signal, s.pmix) }

// Describe adds to a rank's description where it reaches the services. withoutFiles is whether the
// rank is in a container that inherits no open files.
func (s *Services) Describe(r rankenv.Rank, withoutFiles bool, mpi linkage.MPI) rankenv.Rank {
	r.Agent = s.server.Addr()
	r.Token = s.tokens[r.Rank]
	r.Rendezvous.GlooPort = s.gloo.ports[r.Rank]
	if r.MPI.FD = FirstFD; withoutFiles {
		r.MPI.FD = 0
		r.MPI.Port = s.mpi.address()
	} else {
		if r.MPI.Folder = s.folder; s.ompi4 != nil && mpi == linkage.OpenMPI4 {
			r.MPI.OpenMPI4 = libraryFD
			r.MPI.Flux = numberOf(s.job.ID)
		}
	}
	if s.epochs != nil {
		e := s.job.Elastic
		r.LocalSize = e.LocalSize
		r.Node = e.Node
		r.Nodes = e.Nodes
		r.Elastic = true
		r.ElasticTimeout = e.Timeout
		r.MaxRestarts = e.MaxRestarts
	}
	return r
}

// Files opens what a rank inherits after the standard files: its PMI socket, which the caller
// closes when the rank has it, and Open MPI's library, which stays open and is nil where none is
// needed.
func (s *Services) Files(rank int, mpi linkage.MPI) (socket, library *os.File, err error) {
	if socket, err = s.mpi.connect(rank); err != nil {
		return nil, nil, err
	}
	if mpi == linkage.OpenMPI4 {
		library = s.ompi4
	}
	return socket, library, nil
}

var errEnded = errors.New("the agent is ending")
