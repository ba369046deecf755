// Package errand serves requests of users about a job that runs: run a command where a rank runs,
// send ranks a signal, connect with a port or the terminal of a rank, or read what ranks use. An
// errand has no part in how the job goes on; its processes end with the job.
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

// maxError bounds the bytes of an error's text, each up to six in JSON, of which a tell has 64 KiB.
const maxError = 8 << 10

// Process is a process to start.
type Process struct {
	ID        uint32 // number of its errand
	Path      string
	Argv, Env []string
	Dir       string
	Files     []uintptr           // files 0, 1 and 2
	Terminal  bool                // file 0 becomes its controlling terminal
	Owner     *syscall.Credential // nil: the agent's user
}

// Host gives errands access to the agent. Functions are called concurrently.
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

// Server does the errands that the launcher asks one agent for. It is safe for concurrent use.
type Server struct {
	host Host
	out  *wire.Writer

	mu        sync.Mutex
	open      map[uint32]*errand
	terminals map[int]*rankTerminal // by rank
	closed    bool
	wg        sync.WaitGroup
}

// NewServer returns a server that answers on out.
func NewServer(out *wire.Writer, host Host) *Server {
	return &Server{
		host:      host,
		out:       out,
		open:      map[uint32]*errand{},
		terminals: map[int]*rankTerminal{},
	}
}

// errand is one errand that is being done.
type errand struct {
	server *Server
	ask    wire.Ask
	credit *wire.Credit // credit for output
	exited chan syscall.WaitStatus

	mu      sync.Mutex
	arrived sync.Cond
	input   [][]byte
	ended   bool // input has ended
	taken   int  // bytes and frames of input whose credit is not returned yet
	resize  func(wire.Terminal)
	dropped chan struct{} // closed when nobody waits for the errand any more
	once    sync.Once
}

// Frame takes a frame of the launcher. An error means that the launcher breaks the protocol.
func (s *Server) Frame(f wire.Frame) error {
	if f.Type == wire.TypeAsk {
		return wire.Handle(f, s.begin)
	}
	kind, data, err := f.Tell()
	if err != nil {
		return err
	}
	s.mu.Lock()
	e := s.open[f.Stream]
	s.mu.Unlock()
	if e == nil {
		return nil // it has just ended
	}
	return e.receive(kind, data)
}

func (s *Server) begin(ask wire.Ask) error {
	e := &errand{
		server:  s,
		ask:     ask,
		credit:  wire.NewCredit(),
		exited:  make(chan syscall.WaitStatus, 1),
		dropped: make(chan struct{}),
	}
	e.arrived.L = &e.mu
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.open[ask.ID] != nil || ask.ID == 0:
		return &wire.FormatError{Reason: fmt.Sprintf("errand %d is begun twice", ask.ID)}
	case len(s.open) >= wire.MaxErrands:
		return &wire.FormatError{Reason: "too many errands"}
	case s.closed:
		return nil // the job's end is the answer
	}
	for _, rank := range ask.Ranks {
		if !s.host.Owns(rank) {
			return &wire.FormatError{Reason: fmt.Sprintf("an errand about rank %d, which is not here", rank)}
		}
	}
	s.open[ask.ID] = e
	s.wg.Go(e.run)
	return nil
}

// run does the errand and reports its end.
func (e *errand) run() {
	end := wire.ErrandEnd{}
	err := error(nil)
	select {
	case <-e.server.host.Ready:
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
		err = e.attachTerminal()
	case wire.AskProcesses:
		err = e.processes()
	case wire.AskWatch:
		err = e.watch()
	case wire.AskDial:
		err = e.dial()
	default:
		err = fmt.Errorf("unknown errand %q", e.ask.Kind)
	}
	if err != nil {
		text := err.Error()
		end.Error = text[:min(len(text), maxError)]
		if refused := new(wire.Refuse); errors.As(err, &refused) {
			end.Code = refused.Code
			end.Hint = refused.Remedy[:min(len(refused.Remedy), maxError)]
		}
	}
	e.drop()
	s := e.server
	s.mu.Lock()
	delete(s.open, e.ask.ID)
	s.mu.Unlock()
	if text, err := json.Marshal(end); err == nil {
		_ = s.out.SendTell(e.ask.ID, wire.TellEnd, text) // the launcher may have gone
	}
}

// ranks returns the ranks that the errand is about.
func (e *errand) ranks() []int {
	if len(e.ask.Ranks) > 0 {
		return e.ask.Ranks
	}
	return e.server.host.Ranks()
}

// pids returns the processes of those of the ranks that run.
func (e *errand) pids() map[int]int {
	pids := map[int]int{}
	for _, rank := range e.ranks() {
		if pid, running := e.server.host.PID(rank); running {
			pids[rank] = pid
		}
	}
	return pids
}

// write sends output as far as there is credit, and reports whether the launcher waits for more.
func (e *errand) write(data []byte) bool {
	for len(data) > 0 {
		n := e.credit.Take(min(len(data), wire.MaxTell))
		if n == 0 || e.server.out.SendTell(e.ask.ID, wire.TellOut, data[:n]) != nil {
			return false
		}
		data = data[n:]
	}
	return true
}

func (e *errand) signal() error {
	if e.ask.Signal < 1 || e.ask.Signal > 64 {
		return fmt.Errorf("there is no signal %d", e.ask.Signal)
	}
	var errs []error
	for _, rank := range e.ranks() {
		if !e.server.host.Signal(rank, syscall.Signal(e.ask.Signal)) && len(e.ask.Ranks) > 0 {
			errs = append(errs, fmt.Errorf("rank %d has ended", rank))
		}
	}
	return errors.Join(errs...)
}

// receive takes a message of the launcher about the errand.
func (e *errand) receive(kind wire.Tell, data []byte) error {
	switch kind {
	case wire.TellIn:
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.taken += wire.Cost(len(data)); e.taken > wire.Window {
			return &wire.FormatError{Reason: "input of an errand beyond its credit"}
		}
		e.ended = e.ended || len(data) == 0
		e.input = append(e.input, slices.Clone(data))
		e.arrived.Signal()
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
		return &wire.FormatError{Reason: fmt.Sprintf("the launcher told %d of an errand", kind)}
	}
	return nil
}

// drop ends the errand early.
func (e *errand) drop() {
	e.once.Do(func() { close(e.dropped) })
	e.credit.Close()
	e.endInput()
}

// endInput ends the reading of input and of new sizes of the terminal.
func (e *errand) endInput() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.resize = nil
	e.arrived.Broadcast()
}

// nextInput returns the next bytes of standard input; none: it has ended.
func (e *errand) nextInput() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.input) == 0 && !e.ended {
		e.arrived.Wait()
	}
	if len(e.input) == 0 {
		return nil
	}
	data := e.input[0]
	e.input = e.input[1:]
	return data
}

// Exited reports the end of a Process.
func (s *Server) Exited(id uint32, status syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.open[id]; e != nil {
		select {
		case e.exited <- status:
		default:
		}
	}
}

// Close begins no more errands and drops those that are being done. Their processes are the
// caller's to end, after which Wait returns.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, e := range s.open {
		e.drop()
	}
}

// Wait waits for the end of all errands, after Close.
func (s *Server) Wait() {
	s.wg.Wait()
	for _, t := range s.terminals {
		t.master.Close()
	}
}
