package ssh

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gorun/gorun/internal/prose"
)

// drainTime is how long output may be silent after the command's end before it is cut: a process
// that the command left may keep it open.
const drainTime = 2 * time.Second

// Run runs argv on the host by the user's login shell and returns when the
// command has ended and its output has been written; 2 s of silence after its
// end also end the output. nil readers and writers are empty and discard.
//
// The command's failure is an [*ExitError]. When its status never came it is a
// [*LostError]. When ctx ends, Run closes the channel and returns at once, with
// ctx's cause; the command is not killed, it only loses its stdin and stdout.
// If the server had not even answered by then, its answer is a channel that is closed at once.
//
// Run never reads stdin or writes after it has returned, with one exception: a
// Read that stdin is blocked in goes on, and what it reads is lost. A Write in
// progress is waited for.
func (c *Client) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	command, err := Quote(argv)
	if err != nil {
		return fmt.Errorf("%s: %w", c.target, err)
	}
	s, err := c.start(ctx, "exec", command)
	if err != nil {
		return err
	}
	return s.run(ctx, stdin, stdout, stderr)
}

// run copies the session's streams until the command has ended.
func (s *session) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	var traffic traffic
	outputs := []*output{
		{from: s.channel, to: stdout, traffic: &traffic},
		{from: s.channel.Stderr(), to: stderr, traffic: &traffic},
	}
	copied := make(chan error, len(outputs))
	for _, o := range outputs {
		s.client.work.Go(func() {
			copied <- o.copy()
			s.discard(o.from)
		})
	}
	fed := make(chan error, 1)
	// Run cannot wait for it: a Read of the caller's reader cannot be interrupted.
	go func() { fed <- s.feed(stdin) }()
	err := s.wait(ctx, copied, fed, &traffic)
	for _, o := range outputs {
		o.shut()
	}
	s.leave()
	return err
}

// wait returns when the command and its output have ended, or cannot any more.
func (s *session) wait(ctx context.Context, copied, fed <-chan error, traffic *traffic) error {
	open := cap(copied) // outputs that are still open
	exited := s.exited
	closed := s.closed
	var tick <-chan time.Time
	for open > 0 || closed != nil {
		select {
		case err := <-copied:
			if err != nil {
				return fmt.Errorf("%s: passing output on: %w", s.client.target, err)
			}
			open--
		case err := <-fed:
			if err != nil {
				return fmt.Errorf("%s: reading stdin: %w", s.client.target, err)
			}
		case <-exited:
			exited = nil
			ticker := time.NewTicker(drainTime)
			defer ticker.Stop()
			tick = ticker.C
		case <-closed:
			closed = nil
		case <-s.client.stuck:
			return s.client.lost(nil)
		case <-tick:
			if !traffic.moved() {
				return s.result()
			}
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", s.client.target, context.Cause(ctx))
		}
	}
	return s.result()
}

// result returns the command's status once the session has ended.
func (s *session) result() error {
	select {
	case <-s.exited:
		if s.status != nil {
			return s.status
		}
		return nil
	default:
		return s.client.lost(nil)
	}
}

// feed copies stdin into the session. The command may close it at any time.
func (s *session) feed(stdin io.Reader) error {
	if stdin == nil {
		s.channel.CloseWrite()
		return nil
	}
	var p pieces
	for n := 0; ; {
		buf := p.next(n)
		var err error
		n, err = stdin.Read(buf)
		if _, broken := s.channel.Write(buf[:n]); broken != nil {
			return nil
		}
		if err != nil {
			s.channel.CloseWrite()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

const (
	leastPiece = 4 << 10
	mostPiece  = 32 << 10
	fastStream = 16 // level at which pieces are large
)

// pieces is the buffer through which a stream is copied. It is small until much is flowing: a
// launcher has three quiet streams for each of thousands of hosts, and the SSH library keeps
// buffers of the size of the largest piece.
type pieces struct {
	buf   []byte
	level int // 0 to fastStream; a read of leastPiece or more raises it
}

// next returns the buffer for the next read. read is how much the last one got.
func (p *pieces) next(read int) []byte {
	if read >= leastPiece {
		p.level = min(p.level+1, fastStream)
	} else {
		p.level = max(p.level-1, 0)
	}
	switch {
	case p.level == 0 && len(p.buf) != leastPiece:
		p.buf = make([]byte, leastPiece)
	case p.level == fastStream && len(p.buf) != mostPiece:
		p.buf = make([]byte, mostPiece)
	}
	return p.buf
}

// output copies a stream of the session to its writer until shut is called.
type output struct {
	from    io.Reader
	to      io.Writer
	traffic *traffic

	mu     sync.Mutex
	isShut bool
}

func (o *output) copy() error {
	var p pieces
	for n := 0; ; {
		buf := p.next(n)
		var err error
		n, err = o.from.Read(buf)
		if n > 0 {
			if err := o.write(buf[:n]); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (o *output) write(p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.isShut {
		return io.ErrClosedPipe
	}
	o.traffic.begin()
	defer o.traffic.done()
	if o.to == nil {
		return nil
	}
	_, err := o.to.Write(p)
	return err
}

// shut waits for a write in progress and prevents others.
func (o *output) shut() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.isShut = true
}

// traffic distinguishes silence from slow writers.
type traffic struct {
	writing atomic.Int32
	chunks  atomic.Int64
	seen    int64 // chunks at the last call of moved
}

func (t *traffic) begin() { t.writing.Add(1) }

func (t *traffic) done() {
	t.chunks.Add(1)
	t.writing.Add(-1)
}

// moved reports whether data moved since the last call, or is being written.
func (t *traffic) moved() bool {
	chunks := t.chunks.Load()
	moved := chunks != t.seen || t.writing.Load() > 0
	t.seen = chunks
	return moved
}

// parseExit parses the two requests that report how a command ended (RFC 4254, 6.10). ok is false
// for others and for a truncated one.
func parseExit(request string, payload []byte) (e ExitError, ok bool) {
	switch request {
	case "exit-status":
		if len(payload) < 4 {
			return e, false
		}
		return ExitError{Status: int(binary.BigEndian.Uint32(payload))}, true
	case "exit-signal":
		var message struct {
			Signal string
			Core   bool
			Text   string
			Lang   string
		}
		if xssh.Unmarshal(payload, &message) != nil {
			return e, false
		}
		return ExitError{Status: 128 + signalNumber(message.Signal), Signal: or(message.Signal, "unknown")}, true
	}
	return e, false
}

// signalNumber returns the number of a signal of RFC 4254, which all POSIX systems share, or 0.
func signalNumber(name string) int {
	numbers := map[string]int{
		"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8,
		"KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15,
	}
	return numbers[name]
}

// Quote joins argv to one command line that the remote user's login shell splits into argv again,
// as [prose.Quoted] does. A NUL is an error.
func Quote(argv []string) (string, error) {
	if len(argv) == 0 {
		return "", errors.New("no command to run")
	}
	for _, word := range argv {
		if strings.IndexByte(word, 0) >= 0 {
			return "", errors.New("a word of the command holds a NUL byte")
		}
	}
	return prose.Quoted(argv...), nil
}
