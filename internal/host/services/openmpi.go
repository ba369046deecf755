package services

import (
	"bytes"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/linkage"
	"github.com/gorun/gorun/internal/host/memexec"
	"github.com/gorun/gorun/internal/mpi/pmix"
	"github.com/gorun/gorun/internal/net/wire"
)

// libraryFD is the number of Open MPI 4's library in a rank: the first after its PMI socket.
const libraryFD = FirstFD + 1

// openMPI opens what programs of Open MPI need beside PMI-1: a server of PMIx, or for one up to 4.1
// with a PMIx of its own a library that speaks PMI-1, in a file in memory that ranks inherit; and a
// folder for their shared memory, which they leave behind when they are killed.
func (s *Services) openMPI(o Options) (err error) {
	if !o.MPI.OpenMPI4 && !o.MPI.PMIx {
		return nil
	}
	if s.folder, err = newFolder(folderParents(), o.Guard); err != nil {
		return err
	}
	if o.MPI.OpenMPI4 {
		if s.ompi4, err = inMemory("gorun-ompi4.so", s.job.MPI.OpenMPI4); err != nil {
			return err
		}
	}
	if !o.MPI.PMIx {
		return nil
	}
	program, err := memexec.Receive("gorun-pmix", bytes.NewReader(s.job.MPI.PMIx))
	if err != nil {
		return err
	}
	defer program.Close() // the process has it
	s.pmix, err = pmix.Open(pmix.Options{
		Program: program,
		Library: o.MPI.Library,
		Env:     trust.Environ(o.MPI.Env),
		Start: func(path string, argv, env []string, files []*os.File) error {
			return o.Start(path, trust.StartDir(), argv, env, files)
		},
		Store:   s.relay,
		Aborted: s.mpi.aborted,
		Entered: s.entered,
		Refused: func(rank int, why string) { s.relay.send(wire.TypeNote, wire.Note{By: rank, Text: why}) },
		Spawn:   s.spawnPMIx,
		Broken:  o.Broken,
	})
	if err != nil && o.MPI.Guess {
		return nil // watchAlone tells the user when it was right
	}
	if err != nil {
		return wire.Refusef(wire.CodeHostFailed,
			"install libpmix2 (Debian), pmix (Fedora, RHEL), or set LD_LIBRARY_PATH so that it is found",
			"Open MPI needs PMIx here: %v", err)
	}
	return nil
}

func inMemory(name string, content []byte) (*os.File, error) {
	file, err := memexec.Create(name)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for Open MPI's library: %w", err)
	}
	_, err = file.Write(content)
	if err == nil {
		err = memexec.Seal(file) // ranks inherit it, and what they have become could change it
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write Open MPI's library: %w", err), file.Close())
	}
	return file, nil
}

// Begin tells MPI programs where the job's ranks are. Ranks may be started then.
func (s *Services) Begin(start wire.Start) error {
	s.mpi.host.Mapping = start.Mapping
	if s.watches {
		s.mpi.wg.Go(s.watchAlone)
	}
	if s.pmix == nil {
		return nil
	}
	layout := pmix.Layout{
		Job:      "gorun-" + s.job.ID,
		Folder:   s.folder,
		Hosts:    start.Hosts,
		HostOf:   start.HostOf,
		Programs: make([]int, s.job.Size),
		Universe: s.job.Spawn.Universe,
	}
	if len(start.HostOf) != s.job.Size || start.Host < 0 || start.Host >= len(start.Hosts) {
		return errors.New("the launcher did not say where the ranks are")
	}
	layout.Host = start.Host
	for rank := range layout.Programs {
		layout.Programs[rank] = programOf(s.job, rank)
	}
	return s.pmix.Begin(layout)
}

// Environ returns the variables, NAME=value, that a rank needs because of its MPI library.
func (s *Services) Environ(rank int, mpi linkage.MPI) (env []string) {
	if s.worlds.of(rank) != nil {
		env = []string{"PMI_SPAWNED=1"}
	}
	switch {
	case s.pmix == nil:
		return env
	// it takes ranks without a daemon of its own for Flux's, and then finds the PMIx server
	case mpi == linkage.OpenMPI4 && s.ompi4 == nil:
		env = append(env, "FLUX_JOB_ID="+strconv.FormatUint(uint64(numberOf(s.job.ID)), 10))
	case mpi != linkage.OpenMPI:
		return env
	}
	return append(append(env, s.pmix.Environ(rank)...), "OMPI_MCA_btl_sm_backing_directory="+s.folder)
}

// newFolder makes a folder for the shared memory of this host's ranks, in the first parent where
// nobody else can put another one in its place. Its name has the guard.
func newFolder(parents []string, guard contain.Guard) (folder string, err error) {
	for _, parent := range parents {
		if err = trust.Check(parent); err == nil {
			folder, err = os.MkdirTemp(parent, folderPrefix(guard))
		}
		if err == nil {
			return folder, nil
		}
	}
	return "", fmt.Errorf("make a folder for Open MPI: %w", err)
}

func folderParents() []string { return []string{"/dev/shm", os.TempDir()} }

// folderPrefix differs by guard and is short, as Open MPI makes long names below it.
func folderPrefix(guard contain.Guard) string {
	h := fnv.New32a()
	h.Write([]byte(guard.String()))
	return fmt.Sprintf("gorun-mpi-%08x-", h.Sum32())
}

// RemoveFolder removes the folder that a guard's agent has left because it was killed. Another user
// may have made one of that name. Where others can put one in its place there is none of an agent.
func RemoveFolder(guard contain.Guard) {
	for _, parent := range folderParents() {
		if trust.Check(parent) != nil {
			continue
		}
		for name := range trust.Names(parent, maxNames) {
			if !strings.HasPrefix(name, folderPrefix(guard)) {
				continue
			}
			folder := filepath.Join(parent, name)
			if own, err := trust.OpenDir(folder, false); err == nil {
				own.Close()
				_ = os.RemoveAll(folder)
			}
		}
	}
}

// numberOf is a job's number for Open MPI: two halves of 16 bits each, neither of which may be
// negative: communicators could not be split.
func numberOf(job string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(job))
	return h.Sum32()&0x7fff7fff | 1
}
