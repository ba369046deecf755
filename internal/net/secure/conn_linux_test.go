package secure

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Go's poller would wake a thread for everything that arrives on a socket.
func TestOwnedSocketIsNotInGosPoller(t *testing.T) {
	near, far := lab.TCPPair(t)
	c := &Conn{TCPConn: near}
	raw := must.Get(c.SyscallConn())(t)
	var before int
	must.OK(t, raw.Control(func(fd uintptr) { before = int(fd) }))
	must.That(t, polled(t, before), "the socket is not in the poller before either, so this test shows nothing")
	must.OK(t, c.Own())
	check.That(t, !polled(t, before) && !polled(t, c.FD), "the socket is still in the poller")
	check.OK(t, c.Close())
	n, err := far.Read(make([]byte, 1))
	check.That(t, n == 0 && err != nil, "the other end receives %d bytes, %v", n, err)
	check.That(t, c.Close() != nil, "a second Close closes a file that may be another's")
}

// polled reports whether an epoll instance of this process watches fd.
func polled(t *testing.T, fd int) bool {
	t.Helper()
	files := must.Get(filepath.Glob("/proc/self/fdinfo/*"))(t)
	watched := regexp.MustCompile(fmt.Sprintf(`(?m)^tfd:\s+%d\s`, fd))
	for _, file := range files {
		if info, err := os.ReadFile(file); err == nil && watched.Match(info) {
			return true
		}
	}
	return false
}

// A rank that sends without end holds nobody up for long who drops what it sends.
func TestDiscardTakesABoundedPartOfAFlood(t *testing.T) {
	far, near := lab.TCPPair(t)
	c := &Conn{TCPConn: near}
	must.OK(t, c.Own())
	defer c.Close()
	write := func() (sum int) {
		for zeros := make([]byte, 1<<20); sum < 64<<20; {
			n, err := far.Write(zeros)
			if err != nil {
				return sum
			}
			sum += n
		}
		return sum
	}
	small := make([]byte, 64) // to take these takes longer than to send them
	most := lab.MostTaken(t, c.FD, write, func() { c.Discard(small) })
	check.That(t, most < maxDiscarded+uint64(len(small)), "a call took %d bytes", most)
}
