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
	"github.com/gorun/gorun/internal/host/link"
	"github.com/gorun/gorun/internal/host/memory"
	"github.com/gorun/gorun/internal/host/seat"
	"github.com/gorun/gorun/internal/host/services"
	"github.com/gorun/gorun/internal/host/tool"
	"github.com/gorun/gorun/internal/net/wire"
)

const (
	helloTime = 10 * time.Second // for the launcher's next frame before the job starts
	tickTime  = time.Second      // between heartbeats and ticks of the core
	killPoll  = 20 * time.Millisecond
	// manyRanks is the size of a job in which ranks may need more descriptors than they get by
	// default: Horovod opens a socket for each other rank, and three times over.
	manyRanks = 256
	// sweepTime bounds the kill of what is left when the ranks have ended, lastSweepTime is its
	// minimum. The launcher waits for 3 s after the grace.
	sweepTime     = 2 * time.Second
	lastSweepTime = 300 * time.Millisecond
)

// Options are how an agent was started.
type Options struct {
	Nonce string // from the command line; marks the start of the frames
	Build string // content id of this executable
	Guard string // the guard's name, as it gave it
	tasks int    // 0: tasksPerRank
	root  fs.FS  // where the machine shows its GPUs; nil: /
}

// agent is the thin shell around core.
type agent struct {
	out     *wire.Writer
	began   time.Time
	core    *core
	events  chan any
	started chan struct{} // every rank was started
	ended   chan struct{} // the loop is over: events are dropped
	host    *seat.Host
	memory  memory.Reading // before the ranks
	sent    []byte         // gorun-gpu, compressed; nil: it was not sent
	network seat.Interfaces
	begun   wire.Start
	runs    map[int]*program // by rank
	job     wire.Job
	progs   []program
	tools   map[int]tool.Start // by rank
	needs   services.MPI
	serves  *services.Services
	errands *errand.Desk
	// addresses are this host's.
	addresses []wire.Address
	procs     *processes
	cage      *contain.Cage // of the ranks and all that they start
	tasks     int           // processes and threads allowed for each rank
	guard     contain.Guard
	stdin     *stdin

	line    *link.Connection // SSH's to the launcher's side; nil: unknown
	master  seat.Port        // MASTER_PORT, if rank 0 is here
	beating atomic.Bool      // a heartbeat is being written
	ticked  time.Duration

	mu    sync.Mutex // guards what frames and the loop share
	pumps map[uint32]*pump
	wg    sync.WaitGroup
}

// Serve runs an agent: it sends hello on out, takes a job from in, runs it and ends it. It returns
// when every rank and all descendants of ranks have ended. A signal that stops the agent ends ctx.
func Serve(ctx context.Context, in io.Reader, out io.Writer, opts Options) error {
	if err := contain.BecomeSubreaper(); err != nil {
		return fmt.Errorf("become subreaper: %w", err)
	}
	a := &agent{
		out:     wire.NewWriter(out),
		began:   time.Now(),
		events:  make(chan any, 64),
		started: make(chan struct{}),
		ended:   make(chan struct{}),
		pumps:   map[uint32]*pump{},
		runs:    map[int]*program{},
	}
	a.stdin = newStdin(a.out)
	a.tasks = cmp.Or(opts.tasks, tasksPerRank)
	var err error
	if a.guard, err = contain.ParseGuard(opts.Guard); err != nil {
		return fmt.Errorf("find the guard: %w", err)
	}
	a.cage = contain.Open(a.guard)
	a.procs = newProcesses(a.cage, func(rank int, status syscall.WaitStatus, used syscall.Rusage, asked bool) {
		if rank < 0 {
			a.errands.Exited(rank, status)
			return
		}
		event := exitEvent(rank, status, used)
		end := a.serves.End(rank, event.code, event.signal)
		event.mpi = end.MPI
		event.asked = end.Asked
		event.code = end.Code
		event.signal = end.Signal
		event.early = !asked || end.MPI == wire.MPIAborted
		if !end.Aborted.IsZero() { // others fail because of it, and may end before it
			event.at = end.Aborted.Sub(a.began)
		}
		a.post(event)
	})
	defer a.procs.close()
	a.host = seat.Inspect(opts.root)
	a.addresses = seat.Addresses()
	if err := a.hello(out, opts); err != nil {
		return fmt.Errorf("greet the launcher: %w", err)
	}
	a.memory = memory.Read("/") // while the launcher reads the hello
	frames := wire.NewReader(in)
	defer func() {
		if a.serves != nil {
			a.serves.Remove() // also where the job does not begin
		}
	}()
	if err := a.setUp(ctx, frames, opts.Build); err != nil {
		a.removeCage()
		return err
	}
	a.errands = errand.New(a.out, a.errandHost())
	err = a.run(ctx, frames)
	if !a.core.lost { // otherwise services may block for ever on a launcher that reads nothing: the process ends now
		a.close()
	}
	return err
}

// removeCage removes the cage before any rank was started. The guard does so too, unless it was
// killed.
func (a *agent) removeCage() {
	a.procs.leave()
	a.cage.Remove()
}

// close ends every rank's request and waits until none is served.
func (a *agent) close() {
	a.master.Release()
	a.serves.Close()
}

func (a *agent) now() time.Duration { return time.Since(a.began) }

// sit gives the ranks of every program their seats.
func (a *agent) sit() error {
	var visible []seat.Visibility
	for _, p := range a.progs {
		visible = append(visible, seat.VisibleIn(p.env))
	}
	seats, err := a.host.Assign(a.job, visible, a.sent)
	a.sent = nil
	for i := range a.progs {
		a.progs[i].sit(seats)
	}
	return err
}

// locations describes the ranks' seats to the launcher.
func (a *agent) locations() []wire.Location {
	var all []wire.Location
	for _, r := range a.job.Ranks {
		all = append(all, a.host.Location(r.Rank, a.progs[r.Program].seat(r.LocalRank)))
	}
	return all
}

func (a *agent) openServices() (err error) {
	if a.job.Size > manyRanks {
		seat.RaiseDescriptors()
	}
	apart := slices.ContainsFunc(a.progs, func(p program) bool { return p.apart })
	a.serves, err = services.Open(a.job, services.Options{
		Out:       a.out,
		Addresses: a.addresses,
		Guard:     a.guard,
		Apart:     apart,
		MPI:       a.needs,
		Start:     a.startHelper,
		Spawn:     a.spawn,
		MaySpawn:  a.maySpawn,
		Kill:      func(rank int) { a.procs.signal(rank, syscall.SIGKILL) },
		Broken:    func(err error) { a.post(eventFailing{wire.Failing{Broken: err.Error()}}) },
	})
	return err
}

// run is the agent's loop, from Ready to the end of its ranks.
func (a *agent) run(ctx context.Context, frames *wire.Reader) error {
	a.core = newCore(a.job.Grace)
	a.core.heard = a.now()
	a.core.memory = a.memory
	a.core.stays = a.job.Stay
	a.ticked = a.now()
	a.procs.beginReaping()
	parent := os.Getppid()
	go a.read(frames) // ends with in, which the caller closes
	beat := time.NewTicker(a.beatTime())
	defer beat.Stop()
	readings, endReadings := a.readings()
	defer endReadings()
	if e := a.job.Elastic; e != nil {
		a.core.parting = e.Parting
		if readings == nil { // otherwise the connection shows that the agent is cut off
			a.core.lease = e.Lease
		}
	}
	stopped := ctx.Done()
	for finished := false; !finished; {
		var event any
		select {
		case event = <-a.events:
		case <-stopped:
			stopped = nil
			event = eventFailing{wire.Failing{GuardGone: contain.ParentEnded(parent),
				Signal: context.Cause(ctx).Error()}}
		case <-beat.C:
			a.sendHeartbeat()
			event = a.tick()
		case <-readings:
			event = a.inspect()
		case <-a.killTimer():
			event = eventTick{}
		}
		switch e := event.(type) {
		case wire.Start:
			finished = a.start(e)
		case eventSpawn:
			e.run(a.core.stopping)
		default:
			finished = a.apply(event)
		}
	}
	return a.finish()
}

// beatTime is the time between heartbeats. Those of an elastic job are closer: the launcher fences
// a silent host as long after the last one as its ranks may live.
func (a *agent) beatTime() time.Duration {
	if a.job.Elastic != nil {
		return tickTime / 2
	}
	return tickTime
}

// killTimer fires when the core needs a tick before the next heartbeat: the kill is due, or has to
// be repeated.
func (a *agent) killTimer() <-chan time.Time {
	if !a.core.stopping {
		return nil
	}
	return time.After(max(a.core.killAt-a.now(), killPoll))
}

// post hands an event to the loop.
func (a *agent) post(event any) {
	select {
	case a.events <- event:
	case <-a.ended:
	}
}

// apply steps the core and carries out its actions. It reports whether the agent is finished.
func (a *agent) apply(event any) (finished bool) {
	for _, act := range a.core.step(event, a.now()) {
		switch act := act.(type) {
		case actSignal:
			a.procs.signal(act.rank, act.signal)
		case actKillTree:
			a.procs.leave()
			a.cage.Kill()
		case actReport:
			a.rankEnded(act.exit.Rank)
			a.errands.RankEnded(act.exit.Rank)
			a.send(wire.TypeExit, act.exit)
			a.serves.RankEnded(act.exit.Rank)
			delete(a.runs, act.exit.Rank)
		case actStopped:
			a.send(wire.TypeSuspended, nil)
		case actFail:
			a.send(wire.TypeFailing, act.failing)
		case actAbandon:
			a.abandon()
		}
	}
	return a.core.finished
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

// streams are the output streams of each rank.
func (a *agent) streams() []int {
	if a.job.Results {
		return []int{wire.Stdout, wire.Stderr, wire.Result}
	}
	return []int{wire.Stdout, wire.Stderr}
}

func (a *agent) rankEnded(rank int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, fd := range a.streams() {
		if p := a.pumps[wire.OutputStream(rank, fd)]; p != nil {
			p.rankEnded()
		}
	}
	a.stdin.close(rank)
}

// discard drops the rest of the output.
func (a *agent) discard() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pumps {
		p.credit.Close()
	}
}

// abandon stops output to a launcher that is lost or knows that the agent ends, and tells the
// ranks.
func (a *agent) abandon() {
	a.discard()
	a.serves.Abort(wire.Abort{Rank: -1, Host: a.job.Host, Cause: "gorun is gone"})
}

func exitEvent(rank int, status syscall.WaitStatus, used syscall.Rusage) eventExited {
	e := eventExited{rank: rank, maxRSS: used.Maxrss << 10, cpu: time.Duration(used.Utime.Nano() + used.Stime.Nano())}
	if memory.MayLack(status) {
		reading := memory.Read("/")
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
