package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/errand"
	"github.com/gorun/gorun/internal/host/seat"
	"github.com/gorun/gorun/internal/host/services"
	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
)

// tasksPerRank bounds the processes and threads of a host, for each of its ranks, where the kernel
// can.
const tasksPerRank = 4096

// boundTime is how long ranks run before the bound is set, where that costs time.
const boundTime = 50 * time.Millisecond

// starter starts the job's ranks of this host, and those that they spawn. Only the agent's loop
// uses it.
type starter struct {
	job       wire.Job
	programs  []program
	tools     map[int]toolStart // by rank
	host      *seat.Host
	addresses []wire.Address // addresses of this host
	master    seat.Port      // MASTER_PORT, if rank 0 is here
	procs     *processes
	cage      *contain.Cage // cage of the ranks and their descendants
	tasks     int           // processes and threads allowed for each rank
	guard     contain.Guard
	services  *services.Services
	errands   *errand.Server
	streams   *streams
	step      func(event) // informs the core
	ended     <-chan struct{}
	wg        sync.WaitGroup

	begun   wire.Start
	network seat.Interfaces
	running map[int]*program // by rank
}

// start starts every rank of the job that belongs here. A rank that cannot be started is reported
// like one that ended.
func (s *starter) start(start wire.Start) {
	s.network = s.host.Interfaces(s.addresses, s.job, start)
	s.begun = start
	s.openMaster()
	s.cage.Limit(s.tasks * len(s.job.Ranks))
	var ranks []int
	for _, r := range s.job.Ranks {
		ranks = append(ranks, r.Rank)
	}
	s.step(eventRunning{ranks, len(s.streams.outputs)})
	defer s.procs.leave()
	defer contain.RaiseScore()()
	for _, r := range s.job.Ranks {
		s.startOne(r.Rank, &s.programs[r.Program], s.rankOf(r))
	}
	s.wg.Go(s.bound)
}

// startOne starts the rank with a number, or reports that it cannot.
func (s *starter) startOne(rank int, p *program, place rankenv.Rank) {
	if err := s.startRank(rank, p, place); err != nil {
		path := p.path
		if tool := s.tools[rank].Path; tool != "" {
			path = tool
		}
		s.fail(rank, p.place.Explain(path, err))
		return
	}
	s.running[rank] = p
}

// fail reports a rank that cannot be started. A message that quotes whatever a rank has asked for
// could be too long for the launcher, which would wait for the new rank's end.
func (s *starter) fail(rank int, why error) {
	no := &wire.Refuse{Code: wire.CodeNotExecutable, What: why.Error()}
	errors.As(why, &no)
	s.step(eventExited{
		rank:           rank,
		code:           no.Code,
		outputFinished: true,
		failed:         clipped(no.What),
		remedy:         clipped(no.Remedy),
	})
}

// maxFailure bounds a text about a rank that cannot be started. The launcher shows as much.
const maxFailure = 4 << 10

func clipped(text string) string {
	if len(text) <= maxFailure {
		return text
	}
	return strings.ToValidUTF8(text[:maxFailure], "") + "..."
}

// bound keeps ranks from starting processes without end. It comes late, so that it does not delay a
// short job.
func (s *starter) bound() {
	select {
	case <-time.After(boundTime):
		s.cage.Move()
	case <-s.ended:
	}
}

func (s *starter) startRank(rank int, p *program, place rankenv.Rank) (err error) {
	pipes, err := s.streams.open(rank)
	if err != nil {
		return err
	}
	var opened []*os.File // files for the rank in addition to the pipes
	defer func() {
		pipes.closeTheirs()
		closeAll(opened...)
		if err != nil {
			pipes.closeOurs()
		}
	}()
	how := s.tools[rank]
	files := []uintptr{pipes.theirs[0].Fd(), pipes.theirs[1].Fd(), pipes.theirs[2].Fd()}
	if !p.withoutFiles && !s.job.Bare {
		socket, library, err := s.services.Files(rank, p.mpi.MPI)
		if err != nil {
			return err
		}
		opened = append(opened, socket)
		files = append(files, socket.Fd())
		if library != nil {
			files = append(files, library.Fd())
		}
		if result := pipes.theirs[3:]; len(result) > 0 {
			place.ResultFD = len(files)
			files = append(files, result[0].Fd())
		}
	}
	env := s.environ(rank, p, place)
	if how.Terminal != "" {
		tty, err := s.errands.OpenTerminal(rank)
		if err != nil {
			return err
		}
		opened = append(opened, tty)
		copy(files, []uintptr{tty.Fd(), tty.Fd(), tty.Fd()})
		env = append(slices.DeleteFunc(env, func(kv string) bool {
			return strings.HasPrefix(kv, "TERM=")
		}), "TERM="+how.Terminal)
	}
	if rank == 0 && s.usesMaster(env) {
		s.wg.Go(func() { s.watchMaster(s.master.Number) })
	}
	request := startRequest{
		key:      processKey{rankProcess, rank},
		path:     p.path,
		argv:     p.argv,
		dir:      p.place.Dir,
		env:      append(env, contain.Variable+"="+s.guard.String()),
		cpus:     p.seatOf(place.LocalRank).CPUs,
		files:    files,
		terminal: how.Terminal != "",
		halt:     how.Halt,
	}
	if how.Path != "" {
		request.path = how.Path
		request.argv = how.Argv
	}
	if err = s.procs.start(request); err != nil {
		return err
	}
	s.streams.attach(rank, pipes)
	if how.Halt {
		s.wg.Go(func() {
			releaseChild(s.ended, func() (int, bool) { return s.procs.pid(rank) }, func() {
				s.procs.signal(request.key, syscall.SIGCONT)
			})
		})
	}
	return nil
}

func (s *starter) environ(rank int, p *program, place rankenv.Rank) []string {
	if s.job.Bare {
		return p.bareEnv(place)
	}
	return append(p.rankEnv(place), s.services.Environ(rank, p.mpi.MPI)...)
}

// rankOf describes a rank to its environment.
func (s *starter) rankOf(r wire.Rank) rankenv.Rank {
	place := rankenv.Rank{
		Job:        s.job.ID,
		Epoch:      s.job.Epoch,
		Rank:       r.Rank,
		Size:       s.job.Size,
		LocalRank:  r.LocalRank,
		LocalSize:  len(s.job.Ranks),
		CrossRank:  r.CrossRank,
		CrossSize:  r.CrossSize,
		Host:       s.job.Host,
		Addrs:      s.begun.Addrs,
		Shares:     s.job.Shares,
		Network:    s.networks(),
		Launcher:   s.job.Launcher,
		Rendezvous: rendezvous(s.begun),
	}
	if len(s.begun.Addrs) > 0 {
		place.Addr = s.begun.Addrs[0]
	}
	for _, other := range s.job.Ranks {
		if other.LocalRank == 0 { // every host with ranks has one
			place.Node = other.CrossRank
			place.Nodes = other.CrossSize
		}
	}
	return s.services.Describe(place, s.programs[r.Program].withoutFiles, s.programs[r.Program].mpi.MPI)
}

// rendezvous returns MASTER_ADDR and MASTER_PORT for the ranks here, unless they would lead to a
// service of this host or link because rank 0's host says so. The port is 0 if that host has none.
func rendezvous(begun wire.Start) (r rankenv.Rendezvous) {
	master, err := netip.ParseAddr(begun.MasterAddr)
	var own []netip.Addr
	for _, text := range begun.Addrs {
		if addr, err := netip.ParseAddr(text); err == nil {
			own = append(own, addr)
		}
	}
	port := uint16(max(begun.MasterPort, secure.FirstPort))
	if err == nil && len(secure.Dialable([]netip.AddrPort{netip.AddrPortFrom(master, port)}, own)) > 0 {
		r.MasterAddr = begun.MasterAddr
		r.MasterPort = begun.MasterPort
	}
	return r
}

// networks is how the ranks here use networks.
func (s *starter) networks() rankenv.Network {
	return rankenv.Network{
		Encrypt:   s.job.Encrypt,
		All:       s.job.AllNetworks,
		Interface: s.network.Name,
		NCCL:      s.network.NCCL,
	}
}

// openMaster lets rank 0 bind MASTER_PORT. Without rank 0 here it gives the port back.
func (s *starter) openMaster() {
	if !slices.ContainsFunc(s.job.Ranks, func(r wire.Rank) bool { return r.Rank == 0 }) {
		s.master.Release()
		return
	}
	_ = s.master.Open() // a rank that cannot bind it says so
}

// watchMaster tells the user if another user of this host listens on MASTER_PORT before rank 0
// does. The kernel does not keep it from others once ranks may bind it.
func (s *starter) watchMaster(port int) {
	if uid, found := seat.AwaitOtherUser(port, s.ended); found {
		_ = s.streams.out.SendMessage(wire.TypeNote,
			wire.Note{Text: fmt.Sprintf("user %d of this host listens on MASTER_PORT, %d, and is not the job's: "+
				"what ranks send there can be read and changed", uid, port)})
	}
}

// usesMaster reports whether an environment has the reserved port as MASTER_PORT: -x may have given
// another one.
func (s *starter) usesMaster(env []string) bool {
	return s.master.Number > 0 && slices.Contains(env, "MASTER_PORT="+strconv.Itoa(s.master.Number))
}
