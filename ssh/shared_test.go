package ssh

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// An abandoned open of a session leaves the connection, and the sessions on it, intact.
func TestAbandonedSessionLeavesTheConnection(t *testing.T) {
	for _, tc := range []struct {
		name     string
		asked    bool // the server is slow to open the channel; else to run the command
		timesOut bool // the session timeout ends it; else the caller cancels it
	}{{"channel", true, false}, {"command", false, false}, {"channel, by time", true, true},
		{"command, by time", false, true}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var slow atomic.Bool
			release := make(chan struct{})
			reached := make(chan struct{})
			var held sync.Once
			answer := sync.OnceFunc(func() { close(release) })
			defer answer()
			wait := func() {
				if slow.Load() {
					held.Do(func() { close(reached) })
					<-release
				}
			}
			s, files := startServer(t, func(s *server) {
				if tc.asked {
					s.opening = wait
				} else {
					s.opened = wait
				}
			})
			c := dialTest(t, files)
			echo, ended := echoing(t, c)
			echo("before")
			if tc.timesOut {
				c.sessionTimeout = 100 * time.Millisecond
			}
			slow.Store(true)
			enough := errors.New("not wanted any more")
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if !tc.timesOut {
				go func() {
					<-reached
					cancel(enough)
				}()
			}
			err := c.Run(ctx, sh("touch ran"), nil, nil, nil) // returns although the server answers only below
			var refused *SessionError
			check.That(t, (!tc.timesOut || errors.As(err, &refused)) && (tc.timesOut || errors.Is(err, enough)),
				"got %v", err)
			echo("meanwhile")
			answer()
			for deadline := time.Now().Add(10 * time.Second); s.count() > 1; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the server has %d sessions, and only one is wanted", s.count())
				}
			}
			_, err = os.Stat(filepath.Join(s.home, "ran"))
			check.That(t, !tc.asked || err != nil, "the command was run after all")
			c.sessionTimeout = sessionTimeout
			check.OK(t, c.Run(t.Context(), []string{"true"}, nil, nil, nil))
			echo("after")
			echo("")
			check.OK(t, <-ended)
		})
	}
}

// echoing has a session that gives back each line; "" ends it.
func echoing(t *testing.T, c *Client) (echo func(string), ended <-chan error) {
	in, feed := io.Pipe()
	out, said := io.Pipe()
	over := make(chan error, 1)
	go func() {
		err := c.Run(t.Context(), []string{"cat"}, in, said, nil)
		said.CloseWithError(io.ErrUnexpectedEOF)
		in.CloseWithError(io.ErrClosedPipe)
		over <- err
	}()
	lines := bufio.NewReader(out)
	return func(line string) {
		t.Helper()
		if line == "" {
			feed.Close()
			return
		}
		_, err := io.WriteString(feed, line+"\n")
		must.OK(t, err, line)
		got, err := lines.ReadString('\n')
		must.That(t, err == nil && got == line+"\n", "%q came back for %q, %v", got, line, err)
	}, over
}

// count is how many sessions there are.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}
