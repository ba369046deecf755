package session

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
)

// runAgent runs an agent's guard until it has ended.
type runAgent func(ctx context.Context, nonce string, stdin io.Reader, stdout, stderr io.Writer) error

// command is the command on a host that is an agent, and its connection with the launcher.
type command struct {
	Frames *wire.Reader
	Cancel context.CancelFunc // ends the command at once
	life   context.Context    // ends with Cancel, as each session calls in the end
	stdin  *io.PipeWriter
	stdout *io.PipeReader
	stderr *prose.Tail
	ended  chan struct{} // closed when the command has ended with result
	result error
}

// startAgent runs an agent by run and exchanges hellos with it. The command lives until abandon,
// also beyond ctx, which with timeout bounds the start. path names the agent in errors.
func startAgent(ctx context.Context, path string, run runAgent, build string, timeout time.Duration) (*command,
	wire.Hello, error) {
	var raw [16]byte
	rand.Read(raw[:])
	nonce := hex.EncodeToString(raw[:])
	stdinReader, stdinWriter := io.Pipe()
	stdoutReader, stdoutWriter := io.Pipe()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &command{
		Frames: wire.NewReader(stdoutReader),
		Cancel: cancel,
		life:   life,
		stdin:  stdinWriter,
		stdout: stdoutReader,
		stderr: prose.NewTail(stderrSize),
		ended:  make(chan struct{}),
	}
	go func() {
		defer close(c.ended)
		c.result = run(life, nonce, stdinReader, stdoutWriter, c.stderr)
		stdoutWriter.CloseWithError(io.EOF)
		stdinReader.CloseWithError(io.ErrClosedPipe)
	}()
	// greet returns in time whatever the host does.
	cut := func(err error) {
		stdoutWriter.CloseWithError(err)
		stdinReader.CloseWithError(err)
	}
	timer := time.AfterFunc(timeout, func() { cut(&silenceError{timeout}) })
	stop := context.AfterFunc(ctx, func() { cut(context.Cause(ctx)) })
	hello, err := c.greet(nonce, build)
	timer.Stop()
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.abandon()
		return nil, hello, &NoAgentError{
			Path:   path,
			stderr: c.stderr.String(),
			Err:    explain(err, c.result),
			forced: forced(err, c.result, c.stderr),
		}
	}
	return c, hello, nil
}

// greet skips the login shell's output, reads the agent's hello and answers it.
func (c *command) greet(nonce, build string) (hello wire.Hello, err error) {
	if _, err := wire.FindPreamble(c.stdout, nonce); err != nil {
		return hello, err
	}
	f, err := c.Frames.Next()
	if err != nil {
		return hello, err
	}
	if f.Type != wire.TypeHello {
		return hello, &wire.FormatError{Reason: "the agent did not say hello first"}
	}
	// Another build may use another format for the other fields.
	var version struct {
		Protocol int
		Build    string
	}
	if err := f.Decode(&version); err != nil {
		return hello, err
	}
	if version.Protocol != wire.Protocol || version.Build != build {
		return hello, ErrOtherBuild
	}
	if err := f.Decode(&hello); err != nil {
		return hello, err
	}
	if err := checkHello(hello); err != nil {
		return hello, err
	}
	hello.Hostname = Clean(hello.Hostname)
	hello.Arch = Clean(hello.Arch)
	return hello, wire.NewWriter(c.stdin).SendMessage(wire.TypeHello, wire.Hello{Protocol: wire.Protocol, Build: build})
}

// maxWord bounds the words of a hello in bytes. The launcher keeps some of them with each address
// of the host, and tells all hosts of those of rank 0's.
const maxWord = 128

// checkHello validates the lengths of what an agent says of its host.
func checkHello(h wire.Hello) error {
	if n := len(h.Addresses); n > wire.MaxAddresses {
		return &wire.FormatError{Reason: fmt.Sprintf("the agent tells of %d addresses", n)}
	}
	words := []string{h.Boot, h.Reached, h.Caller}
	for _, a := range h.Addresses {
		words = append(words, a.Interface)
	}
	for _, word := range words {
		if len(word) > maxWord {
			return &wire.FormatError{Reason: fmt.Sprintf("the agent says %.40q of its host, in %d bytes", word,
				len(word))}
		}
	}
	return nil
}

// during calls exchange, which exchanges messages before the ranks start. If ctx ends first, so
// does the command, and the cause is the error.
func (c *command) during(ctx context.Context, exchange func() error) error {
	stop := context.AfterFunc(ctx, c.Cancel)
	err := exchange()
	if !stop() {
		return context.Cause(ctx)
	}
	return err
}

// nextFrame returns the agent's next frame that is not a heartbeat.
func (c *command) nextFrame() (wire.Frame, error) {
	for {
		f, err := c.Frames.Next()
		if err != nil {
			return f, c.ConnectionLost(err)
		}
		if f.Type != wire.TypeHeartbeat {
			return f, nil
		}
	}
}

// answer returns the agent's answer to a request other than the job. A refusal is an error without
// an exit code: the host may be used again.
func (c *command) answer() (wire.Frame, error) {
	f, err := c.nextFrame()
	if err == nil && f.Type == wire.TypeRefuse {
		err = wire.Handle(f, func(r wire.Refuse) error { return errors.New(Reason(r.What)) })
	}
	return f, err
}

// hangUp ends the agent and its ranks by closing its stdin. A command that does not end in time is
// cancelled.
func (c *command) hangUp() {
	c.stdin.Close()
	time.AfterFunc(partingTime, c.Cancel)
}

// close ends the agent and its ranks as hangUp does, and waits.
func (c *command) close() {
	c.stdin.Close()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, c.stdout) // frames are not read any more
	}()
	select {
	case <-c.ended:
	case <-time.After(partingTime):
	}
	c.abandon()
	<-drained
}

// abandon ends the command at once and discards its remaining output.
func (c *command) abandon() {
	c.stdin.Close()
	c.stdout.Close()
	c.Cancel()
	<-c.ended
}

// NoAgentError reports that a command ran and no agent of this build answered.
type NoAgentError struct {
	Path   string
	stderr string
	Err    error
	forced *NoShellError // how the account ended a start script that it did not run, or nil
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

// forced returns how an account ended that did not run the start script, or nil. err is that of
// the search for the agent's preamble, ran the command's end. A killed command may have been the
// script.
func forced(err, ran error, stderr *prose.Tail) *NoShellError {
	var noise *wire.NoiseError
	if !errors.As(err, &noise) || noise.Started || !errors.Is(err, io.EOF) {
		return nil
	}
	code, ended := exitCode(ran)
	if ran != nil && !ended || code == wire.SignalCode(syscall.SIGKILL) {
		return nil
	}
	said := prose.Printable(string(noise.Noise[:min(len(noise.Noise), stderrSize)]))
	if text := stderr.String(); text != "" {
		said = strings.TrimPrefix(said+"; "+text, "; ")
	}
	return &NoShellError{Code: code, Said: said, Err: ran}
}

// NoShellError reports an account that does not run commands: a forced command, a start file or the
// login shell ended instead.
type NoShellError struct {
	Code int    // exit status
	Said string // output of that on one line, safe for a terminal; may be empty
	Err  error  // end of the command; nil: status 0
}

func (e *NoShellError) Error() string {
	text := fmt.Sprintf("the account does not run commands: exit status %d, and it says ", e.Code)
	if e.Said == "" {
		return text + "nothing"
	}
	return fmt.Sprintf("%s%q", text, e.Said)
}

func (e *NoShellError) Unwrap() error { return e.Err }

// Hint returns the places that decide what an account runs.
func (e *NoShellError) Hint() string {
	return "this must print a name: ssh HOST hostname; see ForceCommand in its sshd_config, command= in " +
		"authorized_keys, the account's login shell, and that shell's start files (.bashrc, .profile, .cshrc)"
}

// stderrSize is how much of a command's stderr is kept for an error.
const stderrSize = 2 << 10
