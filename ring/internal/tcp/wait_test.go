package tcp

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ring/internal/flow"
)

// late is a conn that can go on after the first wait, which no poll shows.
type late struct {
	conn
	silent int // a file that is never ready
	waited bool
}

func (l *late) Watch(fds []unix.PollFd, _, _ bool) ([]unix.PollFd, time.Duration) {
	l.waited = true
	return append(fds, unix.PollFd{Fd: int32(l.silent), Events: unix.POLLIN}), 0
}

func (l *late) Woken([]unix.PollFd) (send, recv bool, err error) { return false, false, nil }

func (l *late) Send(o *secure.Outbox) (int, error) {
	if !l.waited {
		return 0, unix.EAGAIN
	}
	return l.conn.Send(o)
}

func (l *late) Recv(b []byte) (int, error) {
	if !l.waited {
		return 0, unix.EAGAIN
	}
	return l.conn.Recv(b)
}

// A wait that nothing ends is no reason to wait again without a look.
func TestWaitThatNothingEndsIsFollowedByAnotherTry(t *testing.T) {
	nets := world(t, 2, 1)
	linkUp(t, nets)
	var pipe [2]int
	must.OK(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	l := &late{conn: nets[0].links[1].conns[0], silent: pipe[0]}
	nets[0].links[1].conns[0] = l
	in := [2][]byte{make([]byte, 100), make([]byte, 100)}
	flows := []*flow.Flow{exchange(1, payload(100), in[0]), exchange(0, payload(100), in[1])}
	done := started(func() error {
		return errors.Join(each(nets, func(rank int, n *Net) error { return n.Run(flows[rank]) })...)
	})
	must.OK(t, within(t, 3*time.Minute, "the flow", done))
	check.That(t, l.waited && bytes.Equal(in[0], payload(100)) && bytes.Equal(in[1], payload(100)),
		"waited %v, received %d and %d", l.waited, in[0], in[1])
}
