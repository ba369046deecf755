package session

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/plan"
)

// Host is a machine the launcher can use. *ssh.Client is one, [Local] another.
type Host interface {
	// Run runs a command and returns when it has ended, or ctx has. An exit
	// status other than 0 is an error with an ExitCode() int method.
	Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error
	// Put writes a file; a relative path is below the home directory.
	Put(ctx context.Context, path string, mode fs.FileMode, r io.Reader) error
	Close() error
}

// Resident is a Host that starts agents itself, without a command for each.
type Resident interface {
	// AgentBuild returns the build of the agents, or "" if there is none now.
	AgentBuild() string
	// RunAgent runs an agent's guard as Run runs a command.
	RunAgent(ctx context.Context, nonce string, stdin io.Reader, stdout, stderr io.Writer) error
}

const (
	// BeatTime is short: TCP needs unacknowledged data in flight to detect a dead peer.
	BeatTime    = time.Second / 2
	mostBeat    = 4 * time.Second // an agent that has no job yet waits helloTime for a frame
	manyHosts   = 512
	helloTime   = 10 * time.Second // for an agent to answer; see NewStager
	partingTime = 2 * time.Second  // for an agent to end after its stdin has
)

// beatFor is the time between heartbeats to each host of a job. It grows with their number, so that
// all heartbeats together cost a launcher of thousands of hosts a small part of a core.
func beatFor(hosts int) time.Duration {
	return min(BeatTime*time.Duration(max(hosts, manyHosts))/manyHosts, mostBeat)
}

// AgentCommand is the first argument that makes gorun an agent's guard; the
// second is the nonce.
const AgentCommand = "__agent"

// Session is the launcher's connection to one agent, through one command on one host.
type Session struct {
	Index   int // of the host in the plan
	Host    *plan.Host
	Conn    Host
	Hello   wire.Hello
	Frames  *wire.Reader
	Out     *outbox
	Input   *wire.Credit // for standard input; nil: none of the ranks reads it
	stdin   *io.PipeWriter
	stdout  *io.PipeReader
	stderr  *tail
	Cancel  context.CancelFunc
	ended   chan struct{} // closed when the command has ended with runErr
	runErr  error
	seen    record
	spawned spawned
	gets    atomic.Int64 // requests that wait for keys
	errands errands
	// Number returns the number of a rank of the host in the job now; nil: it is the same. Safe for
	// concurrent use.
	Number func(rank int) int

	Contained string // the agent's description of its cage
	GPUs      string // the agent's description of its GPUs
	Places    []wire.Placement
	Line      bool   // the agent watches its connection
	Note      string // about what the job lacks there, or ""
	PMIx      bool   // it needs to know where all ranks are
	foreign   bool   // its processor is of another architecture than the launcher's

	mu    sync.Mutex
	heard time.Time // the last frame
	Clock clock
}

// NoAgentError reports that a command ran and no agent of this build answered.
type NoAgentError struct {
	Path   string
	stderr string
	Err    error
}

func (e *NoAgentError) Error() string {
	text := fmt.Sprintf("start %s: %v", e.Path, e.Err)
	if e.stderr != "" {
		text += ": " + e.stderr
	}
	return text
}

func (e *NoAgentError) Unwrap() error { return e.Err }

// Hint returns a remedy, if the user has one.
func (e *NoAgentError) Hint() string {
	var silent *silenceError
	var inner interface{ Hint() string }
	switch {
	case errors.As(e.Err, &inner):
		return inner.Hint()
	case errors.As(e.Err, &silent):
		return "its login shell's start files may be slow, or wait for input: try ssh HOST true </dev/null. With a " +
			"longer --start-timeout gorun waits longer for them"
	case errors.Is(e.Err, wire.ErrTooNoisy):
		return "let its login shell's start files (.bashrc, .profile, .cshrc) print nothing unless there is a terminal"
	case strings.Contains(e.stderr, "Exec format error") || strings.Contains(e.stderr, "cannot execute binary file"):
		return archHint()
	}
	return ""
}

// silenceError reports that a command was started and sent nothing.
type silenceError struct{ after time.Duration }

func (e *silenceError) Error() string { return fmt.Sprintf("no answer within %v", e.after) }

// ErrOtherBuild is the cause when another gorun answered.
var ErrOtherBuild = errors.New("another build of gorun is there")

// Open runs the agent at one of the paths on conn and reads its hello. The session lives
// until close, also beyond ctx. hello is the timeout for it, beat the time between heartbeats.
func Open(ctx context.Context, conn Host, at Paths, build string, hello, beat time.Duration) (*Session, error) {
	return openBy(ctx, conn, cmp.Or(at.Installed, at.Cached),
		func(ctx context.Context, nonce string, stdin io.Reader, stdout, stderr io.Writer) error {
			return conn.Run(ctx, Command(conn, at, AgentCommand, nonce), stdin, stdout, stderr)
		}, build, hello, beat)
}

// runAgent runs an agent's guard until it has ended.
type runAgent func(ctx context.Context, nonce string, stdin io.Reader, stdout, stderr io.Writer) error

// openBy opens a session with the agent that run runs; path names it in errors.
func openBy(ctx context.Context, conn Host, path string, run runAgent, build string, hello,
	beat time.Duration) (*Session, error) {
	var raw [16]byte
	rand.Read(raw[:])
	nonce := hex.EncodeToString(raw[:])
	stdinReader, stdinWriter := io.Pipe()
	stdoutReader, stdoutWriter := io.Pipe()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &Session{
		Conn:   conn,
		Frames: wire.NewReader(stdoutReader),
		stdin:  stdinWriter,
		stdout: stdoutReader,
		stderr: &tail{},
		Cancel: cancel,
		ended:  make(chan struct{}),
		heard:  time.Now(),
	}
	go func() {
		defer close(s.ended)
		s.runErr = run(life, nonce, stdinReader, stdoutWriter, s.stderr)
		stdoutWriter.CloseWithError(io.EOF)
		stdinReader.CloseWithError(io.ErrClosedPipe)
	}()
	// Open returns in time whatever the host does.
	giveUp := func(err error) {
		stdoutWriter.CloseWithError(err)
		stdinReader.CloseWithError(err)
	}
	timer := time.AfterFunc(hello, func() { giveUp(&silenceError{hello}) })
	stop := context.AfterFunc(ctx, func() { giveUp(context.Cause(ctx)) })
	err := s.greet(stdoutReader, nonce, build)
	timer.Stop()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		s.Out = newOutbox(wire.NewWriter(stdinWriter))
		s.Out.full = cancel // a host that reads nothing counts as lost
		go s.beat(beat)
		return s, nil
	}
	s.abandon()
	return nil, &NoAgentError{Path: path, stderr: s.stderr.String(), Err: explain(err, s.runErr)}
}

// greet skips the login shell's output, reads the agent's hello and answers it.
func (s *Session) greet(stdout io.Reader, nonce, build string) error {
	if _, err := wire.FindPreamble(stdout, nonce); err != nil {
		return err
	}
	f, err := s.Frames.Next()
	if err != nil {
		return err
	}
	if f.Type != wire.TypeHello {
		return &wire.FormatError{Reason: "the agent did not say hello first"}
	}
	// Another build may use another format for the other fields.
	var version struct {
		Protocol int
		Build    string
	}
	if err := f.Decode(&version); err != nil {
		return err
	}
	if version.Protocol != wire.Protocol || version.Build != build {
		return ErrOtherBuild
	}
	if err := f.Decode(&s.Hello); err != nil {
		return err
	}
	if n := len(s.Hello.Addresses); n > wire.MaxAddresses {
		return &wire.FormatError{Reason: fmt.Sprintf("the agent tells of %d addresses", n)}
	}
	s.Hello.Hostname = Clean(s.Hello.Hostname)
	return wire.NewWriter(s.stdin).SendMessage(wire.TypeHello, wire.Hello{Protocol: wire.Protocol, Build: build})
}

// talk runs a conversation that comes before the ranks start. If ctx ends first, so does the
// session, and the cause is the error.
func (s *Session) talk(ctx context.Context, conversation func() error) error {
	stop := context.AfterFunc(ctx, s.Cancel)
	err := conversation()
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// nextFrame returns the agent's next frame but heartbeats.
func (s *Session) nextFrame() (wire.Frame, error) {
	for {
		f, err := s.Frames.Next()
		if err != nil {
			return f, s.LossReason(err)
		}
		if f.Type != wire.TypeHeartbeat {
			return f, nil
		}
	}
}

// answer returns the agent's answer to a request other than the job. A refusal is an error without
// an exit code: the host may be used again.
func (s *Session) answer() (wire.Frame, error) {
	f, err := s.nextFrame()
	if err == nil && f.Type == wire.TypeRefuse {
		err = wire.Handle(f, func(r wire.Refuse) error { return errors.New(Clean(r.What)) })
	}
	return f, err
}

// Helpers returns programs and libraries for hosts that need them. Functions may be called
// concurrently; a nil one has none.
type Helpers struct {
	GPU func() ([]byte, error)        // gorun-gpu, compressed
	MPI func(need wire.Need) wire.MPI // as far as there is what is needed
}

// Prepare sends the job, and what the host needs for it, and waits until the host is ready. A
// refusal is a *RefusedError.
func (s *Session) Prepare(ctx context.Context, told wire.Job, helpers Helpers,
	trace func(format string, args ...any)) (ready wire.Ready, err error) {
	err = s.talk(ctx, func() error {
		if wantsGPUProgram(s.Hello, told.GPUs) {
			switch n, err := s.sendGPUProgram(helpers.GPU); {
			case err != nil:
				trace("%s: gorun-gpu is not sent: %v", told.Host, err) // the host assigns GPUs by /proc
			case n > 0:
				trace("%s: sent gorun-gpu: %d bytes", told.Host, n)
			}
		}
		s.Out.SendMessage(wire.TypeJob, told)
		f, err := s.nextFrame()
		if err == nil && f.Type == wire.TypeNeed {
			err = wire.Handle(f, func(need wire.Need) error {
				s.Out.SendMessage(wire.TypeMPI, s.needed(need, helpers))
				return nil
			})
			if err == nil {
				f, err = s.nextFrame()
			}
		}
		if err != nil {
			return err
		}
		if f.Type == wire.TypeRefuse {
			return wire.Handle(f, func(r wire.Refuse) error {
				return &RefusedError{r.Code, Clean(r.What), Clean(r.Hint)}
			})
		}
		return f.Expect(wire.TypeReady, &ready)
	})
	ready.FreePort = max(0, min(ready.FreePort, 65535))
	s.Contained = ready.Contained
	s.Line = ready.Line
	s.Note = ready.Note
	s.PMIx = ready.PMIx
	s.GPUs = ready.GPUs
	s.Places = ready.Places
	return ready, err
}

// needed returns what the host needs for MPI programs. It is made for the launcher's architecture.
func (s *Session) needed(need wire.Need, helpers Helpers) (mpi wire.MPI) {
	if helpers.MPI == nil || s.foreign {
		return mpi
	}
	return helpers.MPI(need)
}

// explain prefers ran, the command's own end, over the silence it caused.
func explain(err, ran error) error {
	var noise *wire.NoiseError
	if !errors.As(err, &noise) || !errors.Is(err, io.EOF) || ran == nil {
		return err
	}
	if text := prose.Printable(string(noise.Noise)); text != "" {
		return fmt.Errorf("%w, after printing %q", ran, text)
	}
	return ran
}

// abandon ends the command at once and discards its remaining output.
func (s *Session) abandon() {
	s.stdin.Close()
	s.stdout.Close()
	s.Cancel()
	<-s.ended
}

// Close ends the session: closing the agent's stdin ends the agent and its ranks.
// A command that does not end in time is cancelled.
func (s *Session) Close() {
	s.Out.close()
	s.stdin.Close()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, s.stdout) // frames are not read any more
	}()
	select {
	case <-s.ended:
	case <-time.After(partingTime):
	}
	s.abandon()
	<-drained
}

// HangUp ends the agent and its ranks as Close does, but does not wait; the session's reader sees
// the end. It is for sessions that share a connection, which therefore cannot be closed.
func (s *Session) HangUp() {
	s.Out.close()
	s.stdin.Close()
	time.AfterFunc(partingTime, s.Cancel)
}

// Received records that a frame came, and a heartbeat's time if it was one.
func (s *Session) Received(f wire.Frame, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	if f.Type != wire.TypeHeartbeat {
		return
	}
	if at, err := f.Heartbeat(); err == nil {
		s.Clock.heard(at, now)
	}
}

// beat sends heartbeats until the session has ended.
func (s *Session) beat(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for began := time.Now(); ; {
		select {
		case <-ticker.C:
			s.Out.beat(time.Since(began))
		case <-s.ended:
			return
		}
	}
}

// ResetSilence makes Silence count from now.
func (s *Session) ResetSilence() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
}

// Silence is the time since the last frame.
func (s *Session) Silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.heard)
}

// ToLauncher converts an agent's time to the launcher's.
func (s *Session) ToLauncher(at, now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	offset, known := s.Clock.Offset()
	if !known {
		return now
	}
	return min(at+offset, now)
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
	left int // bytes that came before data
}

const stderrSize = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if len(t.data) > stderrSize {
		t.left += len(t.data) - stderrSize
		t.data = append([]byte(nil), t.data[len(t.data)-stderrSize:]...)
	}
	return len(p), nil
}

// String returns the last bytes written, on one line, safe for a terminal, and says how much came
// before them.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left == 0 {
		return prose.Printable(string(t.data))
	}
	left := t.left
	end := t.data
	if _, lines, found := bytes.Cut(end, []byte("\n")); found && len(bytes.TrimSpace(lines)) > 0 {
		left += len(end) - len(lines)
		end = lines // from the beginning of a line
	}
	return fmt.Sprintf("(%d bytes left out) ... %s", left, prose.Printable(string(end)))
}

// RefusedError is an agent's report that the job cannot run on its host.
type RefusedError struct {
	Code   int    // the exit code that gorun ends with
	What   string // the reason
	Remedy string // what to change; may be empty
}

func (e *RefusedError) Error() string { return e.What }

// ExitCode is the code gorun should end with.
func (e *RefusedError) ExitCode() int { return e.Code }

// Hint returns what to change; it may be empty.
func (e *RefusedError) Hint() string { return e.Remedy }
