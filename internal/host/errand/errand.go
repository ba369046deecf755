// Package errand does what a user wants of a host beside the job: run a command where a rank runs,
// send ranks a signal, connect with the terminal of a rank, or read what ranks use. An errand has
// no part in how the job goes on; its processes end with the job.
package errand

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/gorun/gorun/internal/net/wire"
)

// maxErrands bounds the errands of a host at a time.
const maxErrands = 64

// Process is a process to start.
type Process struct {
	ID        uint32 // its errand's, by which it is signalled, and reported when it has ended
	Path      string
	Argv, Env []string
	Dir       string
	Files     []uintptr // 0, 1 and 2
	Terminal  bool      // file 0 becomes its controlling terminal
}

// Host is what errands need of the agent. Functions are called concurrently.
type Host struct {
	Ready <-chan struct{} // closed when all ranks were started; errands begin then
	Start func(Process) error
	// Signal signals the process group of a rank, and reports whether it runs. A rank that it ends
	// counts as failed, not as stopped.
	Signal func(rank int, signal syscall.Signal) (running bool)
	// SignalProcess signals the process group of a Process.
	SignalProcess func(id uint32, signal syscall.Signal)
	// PID returns the process of a rank that runs.
	PID func(rank int) (pid int, running bool)
	// Find returns the path of a program.
	Find func(name, dir, path string) (string, error)
	// Ranks lists those of this host that may run, spawned ones too. Owns reports whether a rank is
	// of this host, run or not.
	Ranks func() []int
	Owns  func(rank int) bool
	Stays bool // ranks may come as long as the agent runs
	// Inspect returns the program and arguments that tell what ranks do, given their processes, or
	// only whether they make progress.
	Inspect func(pids map[int]int, pulse bool) (path string, argv []string)
	// GPUs reports whether the host has GPUs whose use nvidia-smi can tell.
	GPUs func() bool
}

// Desk does the errands of one agent. It is safe for concurrent use.
type Desk struct {
	host Host
	out  *wire.Writer

	mu     sync.Mutex
	open   map[uint32]*errand
	lent   map[int]*lent // terminals of ranks
	closed bool
	wg     sync.WaitGroup
}

// New returns a desk that answers on out.
func New(out *wire.Writer, host Host) *Desk {
	return &Desk{
		host: host,
		out:  out,
		open: map[uint32]*errand{},
		lent: map[int]*lent{},
	}
}

// errand is one errand that is being done.
type errand struct {
	desk   *Desk
	ask    wire.Ask
	credit *wire.Credit // for output
	exited chan syscall.WaitStatus

	mu      sync.Mutex
	came    sync.Cond
	input   [][]byte
	ended   bool // input has ended
	taken   int  // bytes and frames of input whose credit is not returned yet
	resize  func(wire.Terminal)
	dropped chan struct{} // closed when nobody waits for the errand any more
	once    sync.Once
}

// Frame takes a frame of the launcher. An error means that the launcher breaks the protocol.
func (d *Desk) Frame(f wire.Frame) error {
	if f.Type == wire.TypeAsk {
		return wire.Handle(f, d.begin)
	}
	what, data, err := f.Tell()
	if err != nil {
		return err
	}
	d.mu.Lock()
	e := d.open[f.Stream]
	d.mu.Unlock()
	if e == nil {
		return nil // it has just ended
	}
	return e.told(what, data)
}

func (d *Desk) begin(ask wire.Ask) error {
	e := &errand{
		desk:    d,
		ask:     ask,
		credit:  wire.NewCredit(),
		exited:  make(chan syscall.WaitStatus, 1),
		dropped: make(chan struct{}),
	}
	e.came.L = &e.mu
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.open[ask.ID] != nil || ask.ID == 0:
		return &wire.FormatError{Reason: fmt.Sprintf("errand %d is begun twice", ask.ID)}
	case len(d.open) >= maxErrands:
		return &wire.FormatError{Reason: "too many errands"}
	case d.closed:
		return nil // the job's end is the answer
	}
	for _, rank := range ask.Ranks {
		if !d.host.Owns(rank) {
			return &wire.FormatError{Reason: fmt.Sprintf("an errand about rank %d, which is not here", rank)}
		}
	}
	d.open[ask.ID] = e
	d.wg.Go(e.run)
	return nil
}

// run does the errand and reports its end.
func (e *errand) run() {
	end := wire.ErrandEnd{}
	err := error(nil)
	select {
	case <-e.desk.host.Ready:
	case <-e.dropped:
	}
	switch e.ask.Kind {
	case wire.AskExec:
		end.Code, err = e.exec()
	case wire.AskStacks, wire.AskPulse:
		err = e.stacks(e.ask.Kind == wire.AskPulse)
	case wire.AskSignal:
		err = e.signal()
	case wire.AskTerminal:
		err = e.visit()
	case wire.AskProcesses:
		err = e.processes()
	case wire.AskWatch:
		err = e.watch()
	default:
		err = fmt.Errorf("unknown errand %q", e.ask.Kind)
	}
	if err != nil {
		end.Error = err.Error()
		if refused := new(wire.Refuse); errors.As(err, &refused) {
			end.Code = refused.Code
		}
	}
	e.drop()
	d := e.desk
	d.mu.Lock()
	delete(d.open, e.ask.ID)
	d.mu.Unlock()
	if text, err := json.Marshal(end); err == nil {
		_ = d.out.SendTell(e.ask.ID, wire.TellEnd, text) // the launcher may have gone
	}
}

// ranks returns the ranks that the errand is about.
func (e *errand) ranks() []int {
	if len(e.ask.Ranks) > 0 {
		return e.ask.Ranks
	}
	return e.desk.host.Ranks()
}

// signal sends a signal to ranks.
func (e *errand) signal() error {
	if e.ask.Signal < 1 || e.ask.Signal > 64 {
		return fmt.Errorf("there is no signal %d", e.ask.Signal)
	}
	var errs []error
	for _, rank := range e.ranks() {
		if !e.desk.host.Signal(rank, syscall.Signal(e.ask.Signal)) && len(e.ask.Ranks) > 0 {
			errs = append(errs, fmt.Errorf("rank %d has ended", rank))
		}
	}
	return errors.Join(errs...)
}

// told takes a tell of the launcher.
func (e *errand) told(what wire.Tell, data []byte) error {
	switch what {
	case wire.TellIn:
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.taken += wire.Cost(len(data)); e.taken > wire.Window {
			return &wire.FormatError{Reason: "input of an errand beyond its credit"}
		}
		e.ended = e.ended || len(data) == 0
		e.input = append(e.input, slices.Clone(data))
		e.came.Signal()
	case wire.TellSize:
		var t wire.Terminal
		if err := json.Unmarshal(data, &t); err != nil {
			return &wire.FormatError{Reason: "malformed size of a terminal"}
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.resize != nil {
			e.resize(t)
		}
	case wire.TellCredit:
		n, err := (wire.Frame{Type: wire.TypeCredit, Payload: data}).Credit()
		if err != nil {
			return err
		}
		return e.credit.Add(n)
	case wire.TellEnd:
		e.drop()
	default:
		return &wire.FormatError{Reason: fmt.Sprintf("the launcher told %d of an errand", what)}
	}
	return nil
}

// drop ends the errand early.
func (e *errand) drop() {
	e.once.Do(func() { close(e.dropped) })
	e.credit.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.came.Broadcast()
}

// nextInput returns the next bytes of standard input; none: it has ended.
func (e *errand) nextInput() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.input) == 0 && !e.ended {
		e.came.Wait()
	}
	if len(e.input) == 0 {
		return nil
	}
	data := e.input[0]
	e.input = e.input[1:]
	return data
}

// Exited reports the end of a Process.
func (d *Desk) Exited(id uint32, status syscall.WaitStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.open[id]; e != nil {
		select {
		case e.exited <- status:
		default:
		}
	}
}

// Close begins no more errands and drops those that are being done. Their processes are the
// caller's to end, after which Wait returns.
func (d *Desk) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, e := range d.open {
		e.drop()
	}
}

// Wait waits for the end of all errands, after Close.
func (d *Desk) Wait() {
	d.wg.Wait()
	for _, l := range d.lent {
		l.Master.Close()
	}
}
