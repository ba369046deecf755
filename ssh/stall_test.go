package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/must"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// stallPoint is a moment after which a server does harm.
type stallPoint struct {
	after string
	want  string // in the error; "": the command's end is known, and there is none
}

func stallPoints() []stallPoint {
	return []stallPoint{
		{"accept", PhaseBanner}, {"banner", PhaseKex}, {"kexinit", PhaseKex}, {"newkeys", PhaseAuth},
		{"auth", "starts no command"}, {"channel open", "starts no command"},
		{"exec reply", "enough of it"}, {"first data", "enough of it"}, {"window=0", "enough of it"},
		{"exit-status", ""}, {"close", ""},
	}
}

// stallingConn is a server's connection that does harm from one moment on.
type stallingConn struct {
	*net.TCPConn
	how     string // stop: nothing is sent any more; drop: nothing is taken either, not even by the kernel; reset
	stalled atomic.Bool
	once    sync.Once
	begun   chan struct{} // closed when the harm begins
}

// stall begins the harm.
func (c *stallingConn) stall() {
	c.once.Do(func() {
		c.stalled.Store(true)
		close(c.begun)
		switch c.how {
		case "reset":
			c.SetLinger(0)
			c.Close()
		case "drop":
			c.deafen()
		}
	})
}

// deafen has the kernel throw away what arrives, unacknowledged, as a firewall would.
func (c *stallingConn) deafen() {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		drop := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
		unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &drop[0]})
	})
}

// Write swallows what comes after the harm.
func (c *stallingConn) Write(p []byte) (int, error) {
	if c.stalled.Load() {
		return len(p), nil
	}
	return c.TCPConn.Write(p)
}

// plainStall watches the packets that a server sends before they are encrypted.
type plainStall struct {
	*stallingConn
	after string
}

func (c *plainStall) Write(p []byte) (int, error) {
	const kexInit = 20
	const newKeys = 21
	if c.after == "accept" {
		c.stall()
	}
	n, err := c.stallingConn.Write(p)
	banner := bytes.HasPrefix(p, []byte("SSH-"))
	if c.after == "banner" && banner || len(p) > 5 && !banner &&
		(c.after == "kexinit" && p[5] == kexInit || c.after == "newkeys" && p[5] == newKeys) {
		c.stall()
	}
	return n, err
}

// stallingServer does harm after a point of a session in which a command says "data".
func stallingServer(t testing.TB, after, how string) (files *clientFiles, stalled <-chan struct{}) {
	begun := make(chan struct{})
	var conn *stallingConn // of the only client
	_, files = startServer(t, func(s *server) {
		s.wrap = func(c net.Conn) net.Conn {
			conn = &stallingConn{TCPConn: c.(*net.TCPConn), how: how, begun: begun}
			return &plainStall{conn, after}
		}
		at := func(point string) {
			if point == after {
				conn.stall()
			}
		}
		s.linked = func(*xssh.ServerConn) { at("auth") }
		s.opened = func() { at("channel open") }
		s.exec = func(gone context.Context, ch xssh.Channel, _ string) {
			at("exec reply")
			if after == "window=0" { // stdin is taken by nobody, and does not end
				select {
				case <-time.After(200 * time.Millisecond):
				case <-gone.Done():
				}
				at("window=0")
				<-gone.Done()
				return
			}
			io.WriteString(ch, "data")
			at("first data")
			ch.SendRequest("exit-status", false, []byte{0, 0, 0, 0})
			at("exit-status")
			ch.Close()
			at("close")
		}
	})
	return files, begun
}

// TestStalledServer has a server stop answering, drop silently, or reset the connection after each
// step of a session (§1I: 33 cases). The timeout of the phase ends each, and the error names host
// and phase.
func TestStalledServer(t *testing.T) {
	must.HaveTime(t)
	noLeaks(t)
	var wg sync.WaitGroup
	for _, point := range stallPoints() {
		for _, how := range []string{"stop", "drop", "reset"} {
			files, stalled := stallingServer(t, point.after, how)
			config := files.Config()
			wg.Go(func() {
				for _, fault := range stalledRun(t, point, how, config, stalled) {
					t.Errorf("%s after %s: %s", how, point.after, fault)
				}
			})
		}
	}
	wg.Wait()
}

func stalledRun(t *testing.T, point stallPoint, how string, config Config, stalled <-chan struct{}) (faults []string) {
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	// Only the phase that stalls has a short timeout: a loaded machine is slow in the others.
	began := time.Now()
	const long = time.Minute
	const short = 4 * time.Second
	config.HandshakeTimeout = long
	if slices.Contains([]string{PhaseBanner, PhaseKex, PhaseAuth}, point.want) {
		config.HandshakeTimeout = 2 * short
	}
	err := func() error {
		c, err := Dial(t.Context(), config)
		if err != nil {
			return err
		}
		c.sessionTimeout = long
		c.closeTimeout = short
		if point.want == "starts no command" {
			c.sessionTimeout = short
		}
		defer c.Close()
		var stdin io.Reader
		if point.after == "window=0" {
			stdin = endless{}
		}
		// The caller bounds the time after the exec; gorun does so by heartbeats.
		enough := errors.New("enough of it")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		go func() {
			select {
			case <-stalled:
				time.AfterFunc(2*short, func() { cancel(enough) })
			case <-ctx.Done():
			}
		}()
		return c.Run(ctx, []string{"x"}, stdin, nil, nil)
	}()
	if took := time.Since(began); took > long {
		wrong("took %v", took)
	}
	var dropped *HandshakeError
	switch {
	case point.want == "" && how != "reset" && err != nil:
		wrong("the status had come: %v", err)
	case point.want == "":
	case how == "drop" && errors.Is(err, syscall.ETIMEDOUT):
		// TCP_USER_TIMEOUT was faster than who waits.
	case how == "reset" && errors.As(err, &dropped) && dropped.Temporary():
		// A reset may overtake the banner.
	case err == nil:
		wrong("no error")
	case !strings.HasPrefix(err.Error(), "h (127.0.0.1:"):
		wrong("%q does not name the host", err)
	case how == "reset" && !errors.As(err, &dropped):
		var lost *LostError
		if !errors.As(err, &lost) || !strings.Contains(err.Error(), "reset") {
			wrong("%q does not say that the connection was reset", err)
		}
	case !strings.Contains(err.Error(), point.want):
		wrong("%q does not say %q", err, point.want)
	}
	return faults
}

// endless is a stdin that does not end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
