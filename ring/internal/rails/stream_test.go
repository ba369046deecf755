package rails

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// connect returns both ends of a connection over the loopback interface: the one of a lane, and the
// other rank's.
func connect(t *testing.T) (*secure.Conn, *net.TCPConn) {
	t.Helper()
	far, near := lab.TCPPair(t)
	c := &secure.Conn{TCPConn: near}
	must.OK(t, c.Own())
	return c, far
}

// segment sends a header for size bytes at off, and then n of them.
func segment(t *testing.T, to net.Conn, off uint64, size, n int) {
	t.Helper()
	var head [headerSize]byte
	header{off: off, size: size}.encode(&head)
	must.Get(to.Write(append(head[:], make([]byte, n)...)))(t)
}

func lanes(s *Stream) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes)
}

// await waits until a poll says that s may receive.
func await(t *testing.T, s *Stream) {
	t.Helper()
	fds, _ := s.Watch(nil, false, true)
	for {
		if _, err := unix.Poll(fds, -1); err != unix.EINTR {
			break
		}
	}
	_, _, err := s.Woken(fds)
	must.OK(t, err)
}

// receive receives n bytes.
func receive(t *testing.T, s *Stream, n int) {
	t.Helper()
	for b := make([]byte, n); len(b) > 0; {
		got, err := s.Recv(b)
		if err == unix.EAGAIN {
			await(t, s)
		} else if err != nil || got == 0 {
			t.Fatalf("%d bytes: %v", got, err)
		}
		b = b[max(got, 0):]
	}
}

// A lane ends in the middle of a segment that has come over another lane meanwhile.
func TestLaneEndsInASegmentReceivedElsewhere(t *testing.T) {
	first, one := connect(t)
	s := must.Get(New(first, Config{Rails: 2, First: 0}))(t)
	defer s.Close()
	second, two := connect(t)
	must.That(t, s.Add(2, second), "no second lane")
	segment(t, one, 0, 100, 20)
	receive(t, s, 20)
	segment(t, two, 0, 100, 100)
	receive(t, s, 80)
	if err := one.SetLinger(0); err != nil { // a reset, which poll reports at once
		t.Fatal(err)
	}
	one.Close()
	for lanes(s) > 1 {
		await(t, s)
		n, err := s.Recv(make([]byte, 1))
		must.That(t, err == unix.EAGAIN, "%d bytes, %v", n, err)
	}
	segment(t, two, 100, 50, 50)
	receive(t, s, 50)
}

// The other rank replaces the only lane, and this one sees the end of the old lane before it has
// the new one.
func TestTheOnlyLaneIsReplaced(t *testing.T) {
	for name, made := range map[string]bool{"by a new one": true, "by none": false} {
		t.Run(name, func(t *testing.T) {
			old, far := connect(t)
			dialed := make(chan struct{})
			replace := make(chan *secure.Conn)
			s, err := New(old, Config{Rails: 1, First: -1, Dial: func(context.Context, int) (*secure.Conn, error) {
				close(dialed)
				if c := <-replace; c != nil {
					return c, nil
				}
				return nil, errors.New("refused")
			}})
			must.OK(t, err)
			defer s.Close()
			<-dialed
			far.Close()
			for {
				await(t, s)
				n, err := s.Recv(make([]byte, 1))
				must.That(t, err == unix.EAGAIN, "%d bytes, %v", n, err)
				if lanes(s) == 0 {
					break
				}
			}
			if !made {
				replace <- nil
				await(t, s)
				n, err := s.Recv(make([]byte, 1))
				must.That(t, n == 0 && err == nil, "%d bytes: %v", n, err)
				_, err = s.Send(outbox())
				must.That(t, errors.Is(err, unix.EPIPE) || err == io.EOF, "%v", err)
				return
			}
			young, near := connect(t)
			replace <- young
			segment(t, near, 0, 30, 30)
			receive(t, s, 30)
		})
	}
}

func outbox() *secure.Outbox {
	var o secure.Outbox
	o.Add([]byte("text"))
	return &o
}

// The keeper gives a lane more than the kernel takes. A wait under way does not watch that lane for
// room.
func TestKeeperEndsAWaitThatMustWatchMore(t *testing.T) {
	first, _ := connect(t)
	s := must.Get(New(first, Config{Rails: 1, First: -1}))(t)
	defer s.Close()
	s.Watch(nil, true, true)
	s.mu.Lock()
	s.out.window.grow()
	s.out.window.add(make([]byte, 100<<10))
	s.mu.Unlock()
	s.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	check.That(t, s.signalled, "the wait goes on")
}
