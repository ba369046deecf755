package launcher

import (
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

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/wire"
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

const (
	helloTime   = 10 * time.Second // for an agent to answer; see newStager
	partingTime = 2 * time.Second  // for an agent to end after its stdin has
)

// AgentCommand is the first argument that makes gorun an agent's guard; the
// second is the nonce.
const AgentCommand = "__agent"

// session is one agent, spoken to through one command on one host.
type session struct {
	index  int // of the host in the plan
	host   *PlannedHost
	conn   Host
	hello  wire.Hello
	frames *wire.Reader
	out    *outbox
	input  *wire.Credit // for standard input; nil: none of the ranks reads it
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	stderr *tail
	cancel context.CancelFunc
	ended  chan struct{} // the command has ended; runErr says how
	runErr error
	said   record
	gets   atomic.Int64 // requests that wait for keys

	contained string // what contains its ranks, in the agent's words
	gpus      string // what it has of them, in the same way
	places    []wire.Place
	openMPI   string // a program of its that is linked with Open MPI

	mu    sync.Mutex
	heard time.Time // the last frame
	clock clock
}

// noAgentError says that a command was run and no agent of our build answered.
type noAgentError struct {
	path   string
	stderr string
	err    error
}

func (e *noAgentError) Error() string {
	text := fmt.Sprintf("start %s: %v", e.path, e.err)
	if e.stderr != "" {
		text += ": " + e.stderr
	}
	return text
}

func (e *noAgentError) Unwrap() error { return e.err }

// Hint is about what a user can do something about.
func (e *noAgentError) Hint() string {
	var silent *silenceError
	var inner interface{ Hint() string }
	switch {
	case errors.As(e.err, &inner):
		return inner.Hint()
	case errors.As(e.err, &silent):
		return "its login shell's start files may be slow, or wait for input: try ssh HOST true </dev/null. With a longer --start-timeout gorun waits longer for them"
	case errors.Is(e.err, wire.ErrTooNoisy):
		return "let its login shell's start files (.bashrc, .profile, .cshrc) print nothing unless there is a terminal"
	case strings.Contains(e.stderr, "Exec format error") || strings.Contains(e.stderr, "cannot execute binary file"):
		return archHint()
	}
	return ""
}

// silenceError says that a command was started and nothing came from it.
type silenceError struct{ after time.Duration }

func (e *silenceError) Error() string { return fmt.Sprintf("no answer within %v", e.after) }

// errOtherBuild is the cause when another gorun answered.
var errOtherBuild = errors.New("another build of gorun is there")

// openSession runs the agent at path on conn and reads its hello. The session lives
// until close, also beyond ctx.
func openSession(ctx context.Context, conn Host, path, build string, hello time.Duration) (*session, error) {
	var raw [16]byte
	rand.Read(raw[:])
	nonce := hex.EncodeToString(raw[:])
	stdinReader, stdinWriter := io.Pipe()
	stdoutReader, stdoutWriter := io.Pipe()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s := &session{conn: conn, frames: wire.NewReader(stdoutReader), stdin: stdinWriter, stdout: stdoutReader, stderr: &tail{},
		cancel: cancel, ended: make(chan struct{}), heard: time.Now()}
	go func() {
		defer close(s.ended)
		s.runErr = conn.Run(life, onHost(conn, path, AgentCommand, nonce), stdinReader, stdoutWriter, s.stderr)
		stdoutWriter.CloseWithError(io.EOF)
		stdinReader.CloseWithError(io.ErrClosedPipe)
	}()
	// Whatever the far side does, the hello is there in time or not at all.
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
		s.out = newOutbox(wire.NewWriter(stdinWriter))
		s.out.full = cancel // a host that reads nothing is as good as lost
		go s.beat()
		return s, nil
	}
	s.abandon()
	return nil, &noAgentError{path: path, stderr: s.stderr.String(), err: explain(err, s.runErr)}
}

// greet skips the shell's noise, reads the agent's hello and answers it.
func (s *session) greet(stdout io.Reader, nonce, build string) error {
	if _, err := wire.FindPreamble(stdout, nonce); err != nil {
		return err
	}
	f, err := s.frames.Next()
	if err != nil {
		return err
	}
	if f.Type != wire.TypeHello {
		return &wire.FormatError{Reason: "the agent did not say hello first"}
	}
	// What else another build says may be in another form.
	var version struct {
		Protocol int
		Build    string
	}
	if err := f.Decode(&version); err != nil {
		return err
	}
	if version.Protocol != wire.Protocol || version.Build != build {
		return errOtherBuild
	}
	if err := f.Decode(&s.hello); err != nil {
		return err
	}
	if n := len(s.hello.Addresses); n > wire.MaxAddresses {
		return &wire.FormatError{Reason: fmt.Sprintf("the agent tells of %d addresses", n)}
	}
	s.hello.Hostname = cleaned(s.hello.Hostname)
	return wire.NewWriter(s.stdin).SendMessage(wire.TypeHello, wire.Hello{Protocol: wire.Protocol, Build: build})
}

// prepare sends the job, and what the host lacks for it, and waits for the host's word that it can start there.
func (s *session) prepare(ctx context.Context, o *Options, told wire.Job) (wire.Ready, error) {
	s.sendGPUProgram(o, told.Host, told.GPUs)
	s.out.tell(wire.TypeJob, told)
	stop := context.AfterFunc(ctx, s.cancel)
	defer stop()
	for {
		f, err := s.frames.Next()
		if err != nil {
			if ctx.Err() != nil {
				return wire.Ready{}, context.Cause(ctx)
			}
			return wire.Ready{}, fmt.Errorf("the agent ended: %w", err)
		}
		switch f.Type {
		case wire.TypeHeartbeat:
			continue
		case wire.TypeReady:
			var ready wire.Ready
			if err := f.Decode(&ready); err != nil {
				return wire.Ready{}, err
			}
			if !stop() { // the word has come too late: the session is ended
				return wire.Ready{}, context.Cause(ctx)
			}
			ready.FreePort = max(0, min(ready.FreePort, 65535))
			s.contained, s.openMPI, s.gpus, s.places = ready.Contained, ready.OpenMPI, ready.GPUs, ready.Places
			return ready, nil
		case wire.TypeRefuse:
			var refuse wire.Refuse
			if err := f.Decode(&refuse); err != nil {
				return wire.Ready{}, err
			}
			return wire.Ready{}, &RefusedError{refuse.Code, cleaned(refuse.What), cleaned(refuse.Hint)}
		}
		return wire.Ready{}, &wire.FormatError{Reason: fmt.Sprintf("the agent sent a %s frame before it was ready", f.Type)}
	}
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

// abandon ends the command at once. What it still prints goes nowhere.
func (s *session) abandon() {
	s.stdin.Close()
	s.stdout.Close()
	s.cancel()
	<-s.ended
}

// close ends the session: the agent's stdin ends, which ends the agent and
// what it has started. A command that does not end in time is cut off.
func (s *session) close() {
	s.out.close()
	s.stdin.Close()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, s.stdout) // nobody reads frames any more
	}()
	select {
	case <-s.ended:
	case <-time.After(partingTime):
	}
	s.abandon()
	<-drained
}

// hangUp ends the agent and what it has started, as close does, and leaves it to the session's reader to see that it has
// ended. Closing the connection would do, where there is one for each host.
func (s *session) hangUp() {
	s.out.close()
	s.stdin.Close()
	time.AfterFunc(partingTime, s.cancel)
}

// note records that a frame came, and a heartbeat's time if it was one.
func (s *session) note(f wire.Frame, now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
	if f.Type != wire.TypeHeartbeat {
		return
	}
	if at, err := f.Heartbeat(); err == nil {
		s.clock.heard(at, now)
	}
}

// beat shows the agent every second that the launcher lives, until the session
// has ended.
func (s *session) beat() {
	ticker := time.NewTicker(beatTime)
	defer ticker.Stop()
	for began := time.Now(); ; {
		select {
		case <-ticker.C:
			s.out.beat(time.Since(began))
		case <-s.ended:
			return
		}
	}
}

// excuse forgives the silence so far.
func (s *session) excuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = time.Now()
}

// silence is the time since the last frame.
func (s *session) silence() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.heard)
}

// toLauncher turns an agent's time into the launcher's.
func (s *session) toLauncher(at, now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	offset, known := s.clock.offset()
	if !known {
		return now
	}
	return min(at+offset, now)
}

// tail keeps the last bytes written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if len(t.data) > tailSize {
		t.data = append([]byte(nil), t.data[len(t.data)-tailSize:]...)
	}
	return len(p), nil
}

// String is what was written last, on one line, safe for a terminal.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return prose.Printable(string(t.data))
}
