package agent

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/errand"
	"github.com/gorun/gorun/internal/host/seat"
	"github.com/gorun/gorun/internal/host/services"
	"github.com/gorun/gorun/internal/host/warm"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	helloTime = 10 * time.Second // longest wait for a frame before the job starts
	tickTime  = time.Second      // time between heartbeats, and between ticks of the core
	// manyRanks is the size of a job in which ranks may need more descriptors than they get by
	// default: Horovod opens a socket for each other rank, and three times over.
	manyRanks = 256
)

// Options are how an agent was started.
type Options struct {
	Nonce string      // from the command line; marks the start of the frames
	Build string      // content id of this executable
	Guard string      // name of the guard
	Warm  *warm.Below // forks ranks; nil: all are started
	tasks int         // default tasksPerRank
	root  fs.FS       // root of /proc and /sys for GPUs; nil: /
}

// agent is the thin shell around core.
type agent struct {
	job      wire.Job
	began    time.Time
	out      *wire.Writer
	core     *core
	work     chan func()   // functions for the loop to call
	started  chan struct{} // closed when the loop has started the ranks
	ended    chan struct{} // closed when the loop is over, and no work is done any more
	procs    *processes
	cage     *contain.Cage
	host     *seat.Host
	starter  *starter
	streams  *streams
	services *services.Services
	errands  *errand.Server
	line     *line // nil if the connection is unknown

	startsNoted map[string]bool // ways of starting ranks that were reported
	beating     atomic.Bool     // a heartbeat is being written
	ticked      time.Duration
	wg          sync.WaitGroup
}

// Serve runs an agent: it sends hello on out, takes a job from in, runs it and ends it. It returns
// when every rank and all descendants of ranks have ended. A signal that stops the agent ends ctx.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opts Options) error {
	if err := contain.BecomeSubreaper(); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	guard, err := contain.ParseGuard(opts.Guard)
	if err != nil {
		return fmt.Errorf("find the guard: %w", err)
	}
	cage := contain.Open(guard)
	if opts.Warm != nil {
		defer opts.Warm.Close()
		if cage.Take(opts.Warm.PID) != nil {
			opts.Warm = nil
		}
	}
	procs := newProcesses(cage, opts.Warm)
	defer procs.close()
	s := &setup{
		opts:      opts,
		guard:     guard,
		out:       wire.NewWriter(out),
		frames:    wire.NewReader(in),
		procs:     procs,
		cage:      cage,
		host:      seat.Inspect(opts.root),
		addresses: seat.Addresses(),
	}
	if _, err = out.Write(wire.Preamble(opts.Nonce)); err == nil {
		err = s.hello()
	}
	if err != nil {
		return fmt.Errorf("greet the launcher: %w", err)
	}
	s.memory = readMemory("/") // while the launcher reads the hello
	a, err := s.agent(ctx)
	if err != nil {
		s.removeCage()
		return err
	}
	err = a.run(ctx, s.frames)
	if _, lost := a.core.launcherLost(); !lost {
		// Otherwise services may block for ever on a launcher that reads nothing: the process ends
		// now.
		a.starter.master.Release()
		a.services.Close()
	}
	return err
}

// newAgent opens the services for the ranks of a job that this host can run.
func newAgent(s *setup) (*agent, error) {
	a := &agent{
		job:         s.job,
		began:       time.Now(),
		out:         s.out,
		work:        make(chan func(), 64),
		started:     make(chan struct{}),
		ended:       make(chan struct{}),
		procs:       s.procs,
		cage:        s.cage,
		host:        s.host,
		startsNoted: map[string]bool{},
	}
	a.procs.started = a.rankStarted
	a.streams = newStreams(s.job, s.out, func(rank int) { a.inform(eventDrained{rank}) })
	a.errands = errand.NewServer(s.out, a.errandHost())
	if s.job.Size > manyRanks {
		seat.RaiseDescriptors()
		if s.opts.Warm != nil { // ranks inherit its limits
			seat.RaiseDescriptorsOf(s.opts.Warm.PID)
		}
	}
	var err error
	a.services, err = services.Open(s.job, services.Options{
		Out:          s.out,
		Addresses:    s.addresses,
		Guard:        s.guard,
		WithoutFiles: slices.ContainsFunc(s.programs, func(p program) bool { return p.withoutFiles }),
		MPI:          s.needs,
		Start: func(path, dir string, argv, env []string, files []*os.File) error {
			return s.procs.startHelper(path, dir, argv, append(env, contain.Variable+"="+s.guard.String()), files)
		},
		Spawn:    a.spawn,
		MaySpawn: a.maySpawn,
		Kill:     func(rank int) { s.procs.endRank(rank, syscall.SIGKILL) },
		Broken:   func(err error) { a.inform(eventFailing{wire.Failing{Broken: err.Error()}}) },
	})
	if err != nil {
		return nil, err
	}
	a.starter = &starter{
		job:       s.job,
		programs:  s.programs,
		tools:     s.tools,
		host:      s.host,
		addresses: s.addresses,
		procs:     s.procs,
		cage:      s.cage,
		tasks:     cmp.Or(s.opts.tasks, tasksPerRank),
		guard:     s.guard,
		services:  a.services,
		errands:   a.errands,
		streams:   a.streams,
		step:      a.apply,
		ended:     a.ended,
		running:   map[int]*program{},
	}
	return a, nil
}

func (a *agent) now() time.Duration { return time.Since(a.began) }

// run is the agent's loop, from Ready to the end of its ranks.
func (a *agent) run(ctx context.Context, frames *wire.Reader) error {
	a.ticked = a.now()
	a.procs.beginReaping(a.processEnded)
	parent := os.Getppid()
	// It ends when the caller of Serve closes in.
	go a.read(frames)
	beat := time.NewTicker(beatTime(a.job))
	defer beat.Stop()
	defer a.line.close()
	stopped := ctx.Done()
	for !a.core.isFinished() {
		var kill <-chan time.Time
		if wait, due := a.core.killWait(a.now()); due {
			kill = time.After(wait)
		}
		select {
		case do := <-a.work:
			do()
		case <-stopped:
			stopped = nil
			a.apply(eventFailing{wire.Failing{GuardGone: contain.ParentEnded(parent),
				Signal: context.Cause(ctx).Error()}})
		case <-beat.C:
			a.sendHeartbeat()
			a.tick()
		case <-a.line.due():
			a.apply(a.line.event())
		case <-kill:
			a.apply(eventTick{})
		}
	}
	return a.finish()
}

// beatTime is the time between heartbeats. Those of an elastic job are closer: the launcher fences
// a silent host as long after the last one as its ranks may live.
func beatTime(job wire.Job) time.Duration {
	if job.Elastic != nil {
		return tickTime / 2
	}
	return tickTime
}

// tick recognises that the agent itself was stopped meanwhile, as a batch system does: the
// launcher's frames of that time are not read yet.
func (a *agent) tick() {
	late := a.now()-a.ticked > 3*tickTime
	a.ticked = a.now()
	if late {
		a.apply(eventHeard{})
	} else {
		a.apply(eventTick{})
	}
}

// post hands work to the loop.
func (a *agent) post(do func()) {
	select {
	case a.work <- do:
	case <-a.ended:
	}
}

// inform hands an event to the loop.
func (a *agent) inform(e event) { a.post(func() { a.apply(e) }) }

// apply steps the core and carries out its actions.
func (a *agent) apply(e event) {
	for _, act := range a.core.step(e, a.now()) {
		switch act := act.(type) {
		case actSignal:
			a.procs.endRank(act.rank, act.signal)
		case actKillTree:
			a.procs.leave()
			a.cage.Kill()
		case actReport:
			rank := act.exit.Rank
			failed := act.exit.Code != 0 || act.exit.Signal != 0
			if p := a.starter.running[rank]; p != nil && failed && !act.exit.Stopped {
				act.exit.Program = p.path
			}
			a.streams.rankEnded(rank)
			a.errands.RankEnded(rank)
			a.send(wire.TypeExit, act.exit)
			a.services.RankEnded(rank)
			delete(a.starter.running, rank)
		case actStopped:
			a.send(wire.TypeSuspended, nil)
		case actFail:
			a.send(wire.TypeFailing, act.failing)
		case actAbandon:
			// The launcher is lost, or knows that the agent ends: output stops, and ranks are told.
			a.streams.discard()
			a.services.Abort(wire.Abort{Rank: -1, Host: a.job.Host, Cause: "gorun is gone"})
		}
	}
}

// send sends a control message without blocking the loop, which must notice a launcher that does
// not read.
func (a *agent) send(t wire.Type, message any) {
	a.wg.Go(func() { _ = a.out.SendMessage(t, message) })
}

func (a *agent) sendHeartbeat() {
	if a.beating.Swap(true) {
		return // the last chunk still waits for room
	}
	at := a.now()
	a.wg.Go(func() {
		defer a.beating.Store(false)
		_ = a.out.SendHeartbeat(at)
	})
}

// rankStarted tells a user who follows details how ranks are started on a host whose interpreter is
// warm, each way once. Only the thread that starts them calls it.
func (a *agent) rankStarted(rank int, why string) {
	if a.startsNoted[why] {
		return
	}
	a.startsNoted[why] = true
	text := "it was forked by the warm interpreter"
	if why != "" {
		text = "it was started, not forked by the warm interpreter: " + why
	}
	a.send(wire.TypeNote, wire.Note{By: rank, Text: text, Detail: true})
}

// processEnded takes the end of a process that procs started.
func (a *agent) processEnded(key processKey, status syscall.WaitStatus, used syscall.Rusage, asked bool) {
	if key.kind == errandProcess {
		a.errands.Exited(uint32(key.id), status)
		return
	}
	e := exitEvent(key.id, status, used)
	end := a.services.End(key.id, e.code, e.signal)
	e.mpi = end.MPI
	e.asked = end.Asked
	e.code = end.Code
	e.signal = end.Signal
	e.early = !asked || end.MPI == wire.MPIAborted
	if !end.Aborted.IsZero() { // others fail because of it, and may end before it
		e.at = end.Aborted.Sub(a.began)
	}
	a.inform(e)
}

func exitEvent(rank int, status syscall.WaitStatus, used syscall.Rusage) eventExited {
	e := eventExited{rank: rank, maxRSS: used.Maxrss << 10, cpu: time.Duration(used.Utime.Nano() + used.Stime.Nano())}
	if mayLackMemory(status) {
		reading := readMemory("/")
		e.memory = &reading
	}
	if status.Signaled() {
		e.signal = int(status.Signal())
		e.core = status.CoreDump()
	} else {
		e.code = status.ExitStatus()
	}
	return e
}

// configOf is the core's for a job. before is the memory before its ranks; line is whether the
// connection to the launcher is known.
func configOf(job wire.Job, before memoryReading, line bool) coreConfig {
	config := defaultConfig(job.Grace)
	config.growing = job.Stay
	config.memory = before
	if e := job.Elastic; e != nil {
		config.lostGrace = e.Parting
		if !line { // otherwise the connection shows that the agent is cut off
			config.lease = e.Lease
		}
	}
	return config
}
