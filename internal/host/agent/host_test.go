package agent

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// timeout bounds every wait of these tests, on a machine that is busy.
const timeout = 20 * time.Second

// slow runs a test that takes seconds in parallel with others, and skips it with -short.
func slow(t *testing.T) {
	t.Helper()
	must.HaveTime(t)
	t.Parallel()
}

// host is a guard and its agent, seen from the launcher's end of the wire.
type host struct {
	t      *testing.T
	cmd    *exec.Cmd
	mark   string
	stdin  io.WriteCloser
	out    *wire.Writer // to the agent
	hello  wire.Hello
	stderr string           // path
	hoard  bool             // give no credit back
	other  func(wire.Frame) // is handed what ranks of an elastic job ask for

	gone chan struct{} // the frames have ended; err says how
	err  error
	code int // the guard's, once stop was called

	mu     sync.Mutex
	mpi    wire.MPI // the helpers that the agent may ask for
	ready  *wire.Ready
	refuse *wire.Refuse
	exits  map[int]wire.Exit
	output map[uint32][]byte
	pauses map[uint32]int // frames without bytes
	owed   map[uint32]int
	fences []wire.Fence
	gets   []wire.Get
	puts   []wire.Put
	lost   []wire.Lost
	beats  int
	done   bool
	left   []wire.Process // that could not be killed
	gpus   *gpu.Inventory
	units  wire.Units
	folder chan wire.Frame // answers about a work folder
}

// startHost starts a guard and reads the agent's hello. The test fails if anything of
// it is left in the end.
func startHost(t *testing.T, env ...string) *host {
	t.Helper()
	nonce := rand.Text()
	h := &host{
		t:      t,
		mark:   lab.NewMark(),
		cmd:    exec.Command("/proc/self/exe", guardWord, nonce),
		gone:   make(chan struct{}),
		folder: make(chan wire.Frame, 2),
		stderr: filepath.Join(t.TempDir(), "stderr"),
		exits:  map[int]wire.Exit{},
		output: map[uint32][]byte{},
		pauses: map[uint32]int{},
		owed:   map[uint32]int{},
	}
	h.cmd.Env = append(append(os.Environ(), env...), h.mark, lab.QuickExit)
	log, err := os.Create(h.stderr)
	must.OK(t, err)
	defer log.Close()
	h.cmd.Stderr = log
	h.stdin = must.Get(h.cmd.StdinPipe())(t)
	stdout := must.Get(h.cmd.StdoutPipe())(t)
	must.OK(t, h.cmd.Start())
	t.Cleanup(h.stop)
	h.out = wire.NewWriter(h.stdin)
	frames := wire.NewReader(stdout)
	if _, err = wire.FindPreamble(stdout, nonce); err == nil {
		var f wire.Frame
		if f, err = frames.Next(); err == nil {
			err = f.Expect(wire.TypeHello, &h.hello)
		}
	}
	go func() {
		defer close(h.gone)
		ended := err
		if ended == nil {
			ended = h.read(frames)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.err = ended
	}()
	must.That(t, err == nil, "no hello: %v: %s", err, h.said())
	return h
}

// stop ends the host as a launcher does that goes away.
func (h *host) stop() {
	h.stdin.Close()
	select {
	case <-h.gone:
	case <-time.After(timeout):
		h.t.Errorf("the agent does not end: %s", h.said())
		for _, pid := range lab.Processes(h.mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		<-h.gone
	}
	if h.cmd.ProcessState == nil {
		_ = h.cmd.Wait()
		h.code = h.cmd.ProcessState.ExitCode()
	}
	lab.NoneLeft(h.t, h.mark)
	if h.t.Failed() {
		h.t.Logf("stderr: %s", h.said())
	}
}

func (h *host) said() string {
	text, _ := os.ReadFile(h.stderr)
	return string(text)
}

// answerHello answers the agent's hello.
func (h *host) answerHello() {
	h.t.Helper()
	h.tell(wire.TypeHello, wire.Hello{Protocol: wire.Protocol, Build: testBuild})
}

// greet answers the agent's hello and gives it a job.
func (h *host) greet(job wire.Job) {
	h.t.Helper()
	h.answerHello()
	h.mpi = job.MPI // of which the launcher sends a part only when it is asked
	job.MPI = wire.MPI{Way: job.MPI.Way}
	h.tell(wire.TypeJob, job)
}

// start starts the job when the agent is ready.
func (h *host) start() {
	h.t.Helper()
	h.until("ready", func() bool { return h.ready != nil })
	h.tell(wire.TypeStart, wire.Start{Addrs: []string{"192.0.2.1", "10.1.1.1"}, MasterAddr: "192.0.2.1",
		MasterPort: 4711})
}

// run gives the agent a job and starts it.
func (h *host) run(job wire.Job) {
	h.t.Helper()
	h.greet(job)
	h.start()
}

// running starts a host with a job that has started.
func running(t *testing.T, job wire.Job, env ...string) *host {
	t.Helper()
	h := startHost(t, env...)
	h.run(job)
	return h
}

// jobOf is a job of n ranks, numbered from 2, that all run argv.
func jobOf(n int, argv ...string) wire.Job {
	job := wire.Job{
		ID:       "job",
		Key:      make([]byte, 32),
		Size:     n + 2,
		Hosts:    2,
		Host:     "h1",
		Programs: []wire.Program{{Argv: argv, Wdir: "/"}},
		Grace:    200 * time.Millisecond,
	}
	for i := range n {
		job.Ranks = append(job.Ranks, wire.Rank{
			Rank:      i + 2,
			LocalRank: i,
			CrossRank: 1,
			CrossSize: 2,
		})
	}
	return job
}

// script is a job of n ranks that run a shell script.
func script(n int, text string) wire.Job { return jobOf(n, "/bin/sh", "-c", text) }

func (h *host) tell(t wire.Type, message any) {
	h.t.Helper()
	err := h.out.SendMessage(t, message)
	check.That(h.t, err == nil, "tell the agent: %v: %s", err, h.said())
}

// until waits for something that read finds, under its lock.
func (h *host) until(what string, is func() bool) {
	h.t.Helper()
	ended := false
	must.Until(h.t, what, func() bool {
		select {
		case <-h.gone:
			ended = true
		default:
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		return is() || ended
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	must.That(h.t, is(), "the agent ended (%v) before %s: %s", h.err, what, h.said())
}

// awaitOutput waits until each of the ranks has printed something.
func (h *host) awaitOutput(ranks ...int) {
	h.t.Helper()
	for _, rank := range ranks {
		h.until(fmt.Sprintf("output of rank %d", rank), func() bool {
			return len(h.output[wire.OutputStream(rank, 1)]) > 0
		})
	}
}

// awaitEnd waits until the agent has ended.
func (h *host) awaitEnd() {
	h.t.Helper()
	select {
	case <-h.gone:
	case <-time.After(timeout):
		h.t.Error("the agent goes on")
	}
}

// awaitDone waits until the agent has said done, or has ended.
func (h *host) awaitDone() {
	h.t.Helper()
	must.Until(h.t, "the end of the job", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.done || h.err != nil
	})
}

// finish waits for the agent's done, lets it go, and returns how its ranks ended.
func (h *host) finish() map[int]wire.Exit {
	h.t.Helper()
	h.until("done", func() bool { return h.done })
	h.stop()
	check.That(h.t, h.code == 0 && errors.Is(h.err, io.EOF),
		"the guard ended with %d, the frames with %v", h.code, h.err)
	return maps.Clone(h.exits)
}

// printed returns the output of a rank so far.
func (h *host) printed(rank, fd int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.output[wire.OutputStream(rank, fd)])
}

func (h *host) read(frames *wire.Reader) error {
	for {
		f, err := frames.Next()
		if err == nil {
			err = h.frame(f)
		}
		if err != nil {
			return err
		}
	}
}

func (h *host) frame(f wire.Frame) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done {
		return fmt.Errorf("a %s frame came after done", f.Type)
	}
	if h.other != nil && slices.Contains([]wire.Type{wire.TypeGet, wire.TypePut, wire.TypePark, wire.TypeJoined,
		wire.TypeNote}, f.Type) {
		h.other(f)
		return nil
	}
	switch f.Type {
	case wire.TypeHeartbeat:
		h.beats++
		_, err := f.Heartbeat()
		return err
	case wire.TypeNeed:
		return wire.Handle(f, func(need wire.Need) error {
			check.That(h.t, need.OpenMPI4 != (h.mpi.OpenMPI4 == nil) && need.PMIx != (h.mpi.PMIx == nil),
				"the agent asks for %+v", need)
			h.tell(wire.TypeMPI, h.mpi)
			return nil
		})
	case wire.TypeReady:
		h.ready = new(wire.Ready)
		return f.Decode(h.ready)
	case wire.TypeRefuse:
		h.refuse = new(wire.Refuse)
		return f.Decode(h.refuse)
	case wire.TypeOutput:
		return h.outputFrame(f)
	case wire.TypeExit:
		return wire.Handle(f, func(e wire.Exit) error {
			_, twice := h.exits[e.Rank]
			check.That(h.t, !twice, "rank %d ended twice", e.Rank)
			h.exits[e.Rank] = e
			return nil
		})
	case wire.TypeCredit:
		_, err := f.Credit()
		return err
	case wire.TypeFence:
		return wire.Handle(f, func(m wire.Fence) error { h.fences = append(h.fences, m); return nil })
	case wire.TypeGet:
		return wire.Handle(f, func(m wire.Get) error { h.gets = append(h.gets, m); return nil })
	case wire.TypePut:
		return wire.Handle(f, func(m wire.Put) error { h.puts = append(h.puts, m); return nil })
	case wire.TypeLost:
		return wire.Handle(f, func(m wire.Lost) error { h.lost = append(h.lost, m); return nil })
	case wire.TypeGPUs:
		h.gpus = new(gpu.Inventory)
		return f.Decode(h.gpus)
	case wire.TypeUnits:
		return f.Decode(&h.units)
	case wire.TypeWant, wire.TypeStaged, wire.TypeOffered, wire.TypePassed:
		f.Payload = bytes.Clone(f.Payload)
		h.folder <- f
		return nil
	case wire.TypeDone:
		h.done = true
		return wire.Handle(f, func(d wire.Done) error { h.left = d.Unkillable; return nil })
	}
	return fmt.Errorf("the agent sent a %s frame", f.Type)
}

// outputFrame records output and returns its credit, unless the host hoards it.
func (h *host) outputFrame(f wire.Frame) error {
	h.output[f.Stream] = append(h.output[f.Stream], f.Payload...)
	if len(f.Payload) == 0 {
		h.pauses[f.Stream]++
	}
	if h.owed[f.Stream] += wire.Cost(len(f.Payload)); h.owed[f.Stream] > wire.Window {
		return fmt.Errorf("%d of stream %d beyond its credit", h.owed[f.Stream]-wire.Window, f.Stream)
	}
	if h.hoard {
		return nil
	}
	return h.payBack(f.Stream)
}

// payBack returns all credit of a stream. A test that is over may have closed stdin.
func (h *host) payBack(stream uint32) error {
	n := h.owed[stream]
	h.owed[stream] = 0
	_ = h.out.SendCredit(stream, n)
	return nil
}
