package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	xssh "golang.org/x/crypto/ssh"
)

func sh(script string) []string { return []string{"sh", "-c", script} }

func TestRun(t *testing.T) {
	_, files := newServer(t)
	c := dialTest(t, files)
	var stdout, stderr bytes.Buffer
	err := c.Run(t.Context(), sh(`cat; echo "it's" >&2; exit 3`), strings.NewReader("in"), &stdout, &stderr)
	var exit *ExitError
	check.That(t, errors.As(err, &exit) && exit.ExitCode() == 3 && exit.Signal == "",
		"err is %v, want exit status 3", err)
	check.That(t, stdout.String() == "in" && stderr.String() == "it's\n",
		"stdout %q, stderr %q", stdout.String(), stderr.String())
	check.OK(t, c.Run(t.Context(), []string{"true"}, nil, nil, nil))
	err = c.Run(t.Context(), append([]string{"exec"}, sh("kill -TERM $$")...), nil, nil, nil)
	check.That(t, errors.As(err, &exit) && exit.ExitCode() == 128+15 && exit.Signal == "TERM",
		"err is %v, want signal TERM", err)
	check.That(t, strings.HasPrefix(err.Error(), "h (127.0.0.1:"), "%q does not name the host", err)
}

func TestRunReturnsWhileStdinIsOpen(t *testing.T) {
	_, files := newServer(t)
	c := dialTest(t, files)
	stdin, never := io.Pipe()
	defer never.Close()
	within(t, hangLimit, "Run", func() {
		err := c.Run(t.Context(), sh("exit 4"), stdin, nil, nil)
		var exit *ExitError
		check.That(t, errors.As(err, &exit) && exit.ExitCode() == 4, "%v", err)
	})
}

func TestRunMovesMuchOnBothStreams(t *testing.T) {
	_, files := newServer(t)
	c := dialTest(t, files)
	const size = 20 << 20
	var stdout, stderr sumWriter
	err := c.Run(t.Context(), sh("head -c 20971520 /dev/zero & head -c 20971520 /dev/zero >&2; wait"), nil, &stdout,
		&stderr)
	check.That(t, err == nil && stdout.n == size && stderr.n == size,
		"%d and %d bytes, want %d: %v", stdout.n, stderr.n, size, err)
	var echo sumWriter
	err = c.Run(t.Context(), []string{"cat"}, io.LimitReader(zeros{}, size), &echo, nil)
	check.That(t, err == nil && echo.n == size, "cat gave %d bytes, want %d: %v", echo.n, size, err)
}

type sumWriter struct{ n int }

func (w *sumWriter) Write(p []byte) (int, error) { w.n += len(p); return len(p), nil }

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestRunEndsWithContext(t *testing.T) {
	// sleep holds on to the channel: the server cannot close it.
	_, files := newServer(t, func(s *server) {
		s.exec = func(_ context.Context, ch xssh.Channel, _ string) {
			ch.Write([]byte("up"))
			io.Copy(io.Discard, ch)
		}
	})
	c := dialTest(t, files)
	cause := errors.New("the user had enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	up := writerFunc(func(p []byte) (int, error) { cancel(cause); return len(p), nil })
	within(t, hangLimit, "Run", func() {
		err := c.Run(ctx, []string{"wait"}, blocked{t}, up, nil)
		check.That(t, errors.Is(err, cause), "err is %v, want the cause", err)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// blocked is a reader that brings nothing before the test is over.
type blocked struct{ t *testing.T }

func (b blocked) Read([]byte) (int, error) { <-b.t.Context().Done(); return 0, io.EOF }

func TestConnectionOutlivesCancelledRun(t *testing.T) {
	_, files := newServer(t)
	c := dialTest(t, files)
	ctx, cancel := context.WithCancel(t.Context())
	up := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	err := c.Run(ctx, sh("echo up; exec cat"), blocked{t}, up, nil)
	check.That(t, errors.Is(err, context.Canceled), "err is %v", err)
	var out bytes.Buffer
	err = c.Run(t.Context(), []string{"echo", "again"}, nil, &out, nil)
	check.That(t, err == nil && out.String() == "again\n", "%q, %v", out.String(), err)
}

func TestRunDoesNotWaitForWhatACommandLeaves(t *testing.T) {
	must.HaveTime(t)
	_, files := newServer(t, func(s *server) {
		s.exec = func(_ context.Context, ch xssh.Channel, _ string) {
			ch.Write([]byte("out"))
			sendExit(ch, 0)
			io.Copy(io.Discard, ch) // a daemon holds stdout
		}
	})
	c := dialTest(t, files)
	var out bytes.Buffer
	within(t, 3*drainTime, "Run", func() {
		err := c.Run(t.Context(), []string{"daemon"}, blocked{t}, &out, nil)
		check.That(t, err == nil && out.String() == "out", "%q, %v", out.String(), err)
	})
}

func TestRunReportsBrokenWriterAndReader(t *testing.T) {
	must.HaveTime(t)
	_, files := newServer(t)
	c := dialTest(t, files)
	broken := errors.New("disk full")
	err := c.Run(t.Context(), sh("echo x; sleep 60"), nil, writerFunc(func([]byte) (int, error) {
		return 0, broken
	}), nil)
	check.That(t, errors.Is(err, broken), "err is %v, want the writer's", err)
	err = c.Run(t.Context(), []string{"cat"}, io.MultiReader(strings.NewReader("x"), brokenReader{broken}), nil, nil)
	check.That(t, errors.Is(err, broken), "err is %v, want the reader's", err)
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

func TestCloseEndsRun(t *testing.T) {
	_, files := newServer(t)
	c := dialTest(t, files)
	var once sync.Once
	closed := make(chan struct{})
	up := writerFunc(func(p []byte) (int, error) {
		once.Do(func() {
			go func() { c.Close(); close(closed) }()
		})
		return len(p), nil
	})
	err := c.Run(t.Context(), sh("echo up; exec cat"), blocked{t}, up, nil)
	var lost *LostError
	check.That(t, errors.As(err, &lost) && errors.Is(err, net.ErrClosed), "err is %v", err)
	<-closed
}

func TestSessionRefused(t *testing.T) {
	must.HaveTime(t)
	_, files := newServer(t, func(s *server) {
		s.maxSessions = 1
		s.sessions = 1
	})
	c := dialTest(t, files)
	err := c.Run(t.Context(), []string{"true"}, nil, nil, nil)
	var refused *SessionError
	check.That(t, errors.As(err, &refused) && !strings.ContainsRune(err.Error(), 0x1b) &&
		strings.Contains(refused.Hint(), "MaxSessions"),
		"err is %q", err)
}

// TestNosyServer has the server open channels that it must not have. The client refuses each, since
// servers wait for an answer.
func TestNosyServer(t *testing.T) {
	answers := make(chan error, 4)
	_, files := newServer(t, func(s *server) {
		s.linked = func(link *xssh.ServerConn) {
			ok, _, err := link.SendRequest("keepalive@openssh.com", true, nil)
			if ok {
				err = errors.New("the client grants a global request")
			}
			answers <- err
			for _, kind := range []string{"auth-agent@openssh.com", "forwarded-tcpip", "x11"} {
				_, _, err := link.OpenChannel(kind, nil)
				var refused *xssh.OpenChannelError
				if errors.As(err, &refused) {
					err = nil
				} else {
					err = fmt.Errorf("channel %s: %v", kind, err)
				}
				answers <- err
			}
		}
	})
	c := dialTest(t, files)
	for range cap(answers) {
		check.OK(t, <-answers)
	}
	check.OK(t, c.Run(t.Context(), []string{"true"}, nil, nil, nil))
}
