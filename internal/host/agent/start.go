package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/lookup"
	"github.com/gorun/gorun/internal/host/tool"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
)

// pumpBuffer is one read of a rank's output.
const pumpBuffer = 32 << 10

// tasksPerRank bounds the processes and threads of a host, for each of its ranks, where the kernel
// can.
const tasksPerRank = 4096

// boundTime is how long ranks run before the bound is set, where that costs time.
const boundTime = 50 * time.Millisecond

// hello writes the preamble and the first frame.
func (a *agent) hello(out interface{ Write([]byte) (int, error) }, opts Options) error {
	if _, err := out.Write(wire.Preamble(opts.Nonce)); err != nil {
		return err
	}
	h := wire.Hello{
		Protocol:        wire.Protocol,
		Build:           opts.Build,
		PID:             os.Getpid(),
		Arch:            runtime.GOARCH,
		Addresses:       a.addresses,
		Cores:           a.host.Cores,
		LacksGPUProgram: a.host.LacksGPUProgram,
		Partitioned:     a.host.Partitioned,
	}
	h.Hostname, _ = os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	h.Boot = strings.TrimSpace(string(boot))
	// "client-ip client-port server-ip server-port", set by sshd.
	if c := strings.Fields(os.Getenv("SSH_CONNECTION")); len(c) == 4 {
		h.Caller = c[0]
		h.Reached = c[2]
	}
	return a.out.SendMessage(wire.TypeHello, h)
}

// start starts every rank of this host. A rank that cannot be started is reported like one that
// ended. finished is whether all ended.
func (a *agent) start(start wire.Start) (finished bool) {
	if len(a.core.ranks) > 0 || a.core.stopping {
		return a.core.finished
	}
	defer close(a.started)
	a.sendHeartbeat() // dates the end of a rank that fails within a second
	if err := a.serves.Begin(start); err != nil {
		return a.apply(eventFailing{wire.Failing{Broken: err.Error()}})
	}
	a.network = a.host.Interfaces(a.addresses, a.job, start)
	a.begun = start
	a.openMaster()
	a.cage.Limit(a.tasks * len(a.job.Ranks))
	var ranks []int
	for _, r := range a.job.Ranks {
		ranks = append(ranks, r.Rank)
	}
	a.apply(eventRunning{ranks, len(a.streams())})
	defer a.procs.leave()
	defer contain.RaiseScore()()
	for _, r := range a.job.Ranks {
		a.startOne(r.Rank, &a.progs[r.Program], a.rankOf(r, start))
	}
	a.wg.Go(a.bound)
	return a.core.finished
}

// startOne starts the rank with a number, or reports that it cannot.
func (a *agent) startOne(rank int, p *program, place rankenv.Rank) {
	err := a.startRank(rank, p, place)
	if err == nil {
		return
	}
	code := wire.CodeNotExecutable
	if errors.Is(err, fs.ErrNotExist) {
		code = wire.CodeNotFound
	}
	a.apply(eventExited{
		rank:           rank,
		code:           code,
		outputFinished: true,
		failed:         fmt.Sprintf("start %s: %v", p.path, lookup.Cause(err)),
	})
}

// bound keeps ranks from starting processes without end. It comes late, so that it does not delay a
// short job.
func (a *agent) bound() {
	select {
	case <-time.After(boundTime):
		a.cage.Move()
	case <-a.ended:
	}
}

func (a *agent) startRank(rank int, p *program, place rankenv.Rank) (err error) {
	var opened []*os.File // the child's ends, closed here when the child has them
	var outputs []*os.File
	stdinFile, ours, err := a.stdinFor(rank)
	defer func() {
		if err != nil {
			opened = append(append(opened, ours), outputs...)
		}
		for _, f := range opened {
			f.Close() // nil for what was not opened
		}
	}()
	if err != nil {
		return err
	}
	opened = append(opened, stdinFile)
	for range a.streams() {
		output, writer, err := os.Pipe()
		if err != nil {
			return err
		}
		outputs = append(outputs, output)
		opened = append(opened, writer)
	}
	how := a.tools[rank]
	files := []uintptr{opened[0].Fd(), opened[1].Fd(), opened[2].Fd()}
	if !p.apart {
		result := opened[3:]
		socket, library, err := a.serves.Files(rank, p.mpi.MPI)
		if err != nil {
			return err
		}
		opened = append(opened, socket)
		files = append(files, socket.Fd())
		if library != nil {
			files = append(files, library.Fd())
		}
		if len(result) > 0 {
			place.ResultFD = len(files)
			files = append(files, result[0].Fd())
		}
	}
	env := append(p.rankEnv(place), a.serves.Environ(rank, p.mpi.MPI)...)
	if how.Terminal != "" {
		tty, err := a.errands.Lend(rank)
		if err != nil {
			return err
		}
		opened = append(opened, tty)
		files[0] = tty.Fd()
		files[1] = tty.Fd()
		files[2] = tty.Fd()
		env = append(slices.DeleteFunc(env, func(kv string) bool {
			return strings.HasPrefix(kv, "TERM=")
		}), "TERM="+how.Terminal)
	}
	if rank == 0 && a.usesMaster(env) {
		a.wg.Go(func() { a.watchMaster(a.master.Number) })
	}
	request := startRequest{
		rank:     rank,
		path:     p.path,
		argv:     p.argv,
		dir:      p.dir,
		env:      append(env, contain.Variable+"="+a.guard.String()),
		cpus:     p.seat(place.LocalRank).CPUs,
		files:    files,
		terminal: how.Terminal != "",
		halt:     how.Halt,
	}
	if how.Path != "" {
		request.path = how.Path
		request.argv = how.Argv
	}
	if err = a.procs.start(request); err != nil {
		return err
	}
	a.runs[rank] = p
	a.attach(rank, ours, outputs)
	if how.Halt {
		a.wg.Go(func() {
			tool.Release(a.ended, func() (int, bool) { return a.procs.pid(rank) }, func() {
				a.procs.pass(rank, syscall.SIGCONT)
			})
		})
	}
	return nil
}

// rankOf describes a rank to its environment.
func (a *agent) rankOf(r wire.Rank, start wire.Start) rankenv.Rank {
	place := rankenv.Rank{
		Job:         a.job.ID,
		Epoch:       a.job.Epoch,
		Rank:        r.Rank,
		Size:        a.job.Size,
		LocalRank:   r.LocalRank,
		LocalSize:   len(a.job.Ranks),
		CrossRank:   r.CrossRank,
		CrossSize:   r.CrossSize,
		Host:        a.job.Host,
		Addrs:       start.Addrs,
		Shares:      a.job.Shares,
		Encrypt:     a.job.Encrypt,
		AllNetworks: a.job.AllNetworks,
		MasterAddr:  start.MasterAddr,
		MasterPort:  start.MasterPort,
	}
	if len(start.Addrs) > 0 {
		place.Addr = start.Addrs[0]
	}
	for _, other := range a.job.Ranks {
		if other.LocalRank == 0 { // every host with ranks has one
			place.Node = other.CrossRank
			place.Nodes = other.CrossSize
		}
	}
	place.Interface = a.network.Name
	place.NCCLInterfaces = a.network.NCCL
	return a.serves.Describe(place, a.progs[r.Program].apart, a.progs[r.Program].mpi.MPI)
}

// stdinFor opens a rank's standard input: a pipe for ranks that get the launcher's, /dev/null for
// the others.
func (a *agent) stdinFor(rank int) (theirs, ours *os.File, err error) {
	if slices.Contains(a.job.Stdin, rank) {
		return os.Pipe()
	}
	theirs, err = os.Open(os.DevNull)
	return theirs, nil, err
}

// attach connects a started rank's input and output with the launcher.
func (a *agent) attach(rank int, input *os.File, outputs []*os.File) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, file := range outputs {
		fd := a.streams()[i]
		p := &pump{
			file:   file,
			stream: wire.OutputStream(rank, fd),
			credit: wire.NewCredit(),
			out:    a.out,
			lines:  fd != wire.Result,
		}
		a.pumps[p.stream] = p
		a.wg.Go(func() {
			p.run(make([]byte, pumpBuffer))
			a.post(eventDrained{rank})
		})
	}
	if input != nil {
		a.wg.Go(a.stdin.attach(rank, input))
	}
}

// read turns the launcher's frames into events, until the stream ends.
func (a *agent) read(frames *wire.Reader) {
	for {
		f, err := frames.Next()
		if err == nil {
			a.post(eventHeard{})
			err = a.frame(f)
		}
		if err != nil {
			a.post(eventLost{err.Error()})
			return
		}
	}
}

// frame handles one frame. An error means that the launcher breaks the protocol.
func (a *agent) frame(f wire.Frame) error {
	switch f.Type {
	case wire.TypeHeartbeat:
		return nil
	case wire.TypeStart:
		return wire.Handle(f, func(s wire.Start) error { a.post(s); return nil })
	case wire.TypeStop:
		return wire.Handle(f, func(s wire.Stop) error {
			a.procs.reap() // ranks that have ended were not stopped
			a.post(eventStop{s.Grace})
			return nil
		})
	case wire.TypeSignal:
		return wire.Handle(f, func(s wire.Signal) error { a.post(eventSignal{s.Number}); return nil })
	case wire.TypeSuspend:
		a.post(eventSuspend{})
		return nil
	case wire.TypeResume:
		a.post(eventResume{})
		return nil
	case wire.TypeAbort:
		return wire.Handle(f, func(m wire.Abort) error {
			a.procs.reap()
			a.post(eventAborted{a.procs.ending()}) // before any rank can act on it
			a.serves.Abort(m)
			return nil
		})
	case wire.TypeEpoch:
		if a.job.Elastic != nil {
			a.post(eventEpoch{})
		}
		return a.serves.Frame(f)
	case wire.TypeInterrupt, wire.TypeFenced, wire.TypeValue, wire.TypeWorld:
		return a.serves.Frame(f)
	case wire.TypeAsk, wire.TypeTell:
		return a.errands.Frame(f)
	case wire.TypeStdin:
		return a.input(f.Payload)
	case wire.TypeCredit:
		return a.credit(f)
	}
	return &wire.FormatError{Reason: fmt.Sprintf("the launcher sent a %s frame", f.Type)}
}

// input queues the launcher's standard input for its ranks, when they are started.
func (a *agent) input(data []byte) error {
	select {
	case <-a.started:
	case <-a.ended:
		return nil
	}
	return a.stdin.push(data)
}

func (a *agent) credit(f wire.Frame) error {
	n, err := f.Credit()
	if err != nil {
		return err
	}
	a.mu.Lock()
	p := a.pumps[f.Stream]
	a.mu.Unlock()
	if p == nil {
		return &wire.FormatError{Reason: fmt.Sprintf("credit for stream %d, which does not exist", f.Stream)}
	}
	return p.credit.Add(n)
}
