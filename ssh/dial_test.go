package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// assertHint fails unless err is a Hinter that names the host and whose hint has
// the words.
func assertHint(t *testing.T, err error, words ...string) {
	t.Helper()
	var h Hinter
	must.That(t, errors.As(err, &h), "%v (%T) has no hint", err, err)
	check.That(t, strings.HasPrefix(err.Error(), "h (") || strings.HasPrefix(err.Error(), "h:"),
		"%q does not begin with the host", err)
	for _, word := range words {
		check.That(t, strings.Contains(h.Hint(), word), "hint %q has no %q", h.Hint(), word)
	}
}

func TestDialRefused(t *testing.T) {
	s, files := newServer(t)
	s.listen.Close()
	_, err := Dial(t.Context(), files.Config())
	var refused *RefusedError
	must.That(t, errors.As(err, &refused) && refused.Temporary(), "err is %v", err)
	assertHint(t, err, "start sshd")
}

func TestDialUnresolved(t *testing.T) {
	_, files := newServer(t)
	config := files.Config()
	writeFile(t, files.config, "Host h\n  HostName no-such-host.invalid\n")
	config.ConnectTimeout = 10 * time.Second
	_, err := Dial(t.Context(), config)
	var unresolved *UnresolvedError
	must.That(t, errors.As(err, &unresolved), "err is %v", err)
	assertHint(t, err, "getent hosts no-such-host.invalid")
}

// TestDialUnanswered dials a listener whose queue is full: the kernel then drops
// what comes, as a firewall would.
func TestDialUnanswered(t *testing.T) {
	_, files := newServer(t)
	port := fullListener(t)
	config := files.Config()
	writeFile(t, files.config, fmt.Sprintf("Host h\n  HostName 127.0.0.1\n  Port %d\n", port))
	config.ConnectTimeout = 200 * time.Millisecond
	var err error
	within(t, hangLimit, "Dial", func() { _, err = Dial(t.Context(), config) })
	var unreachable *UnreachableError
	must.That(t, errors.As(err, &unreachable) && errors.Is(err, errTimeout), "err is %v", err)
	assertHint(t, err, "ping 127.0.0.1", fmt.Sprint("port ", port))
}

// fullListener returns the port of a listener that takes no more connections.
func fullListener(t *testing.T) int {
	t.Helper()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	must.OK(t, errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)))
	name := must.Get(unix.Getsockname(fd))(t)
	port := name.(*unix.SockaddrInet4).Port
	for range 10 {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 100*time.Millisecond)
		if err != nil {
			return port
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the queue does not fill")
	return 0
}

func TestDialNotSSH(t *testing.T) {
	_, files := newServer(t, func(s *server) {
		s.wrap = func(conn net.Conn) net.Conn {
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\x1b[2J\r\n\r\n")
			conn.(*net.TCPConn).CloseWrite()
			return deafConn{conn}
		}
	})
	_, err := Dial(t.Context(), files.Config())
	var handshake *HandshakeError
	must.That(t, errors.As(err, &handshake) && handshake.Phase == PhaseBanner &&
		strings.Contains(handshake.Said, "HTTP/1.1 400") && !handshake.Temporary(),
		"err is %#v", err)
	check.That(t, !strings.ContainsRune(err.Error(), 0x1b), "control bytes in %q", err)
	assertHint(t, err, "not an SSH server")
}

// deafConn says nothing more.
type deafConn struct{ net.Conn }

func (deafConn) Write(p []byte) (int, error) { return len(p), nil }

func TestDialDroppedBeforeBanner(t *testing.T) {
	_, files := newServer(t, func(s *server) {
		s.wrap = func(conn net.Conn) net.Conn { conn.Close(); return conn }
	})
	_, err := Dial(t.Context(), files.Config())
	var handshake *HandshakeError
	must.That(t, errors.As(err, &handshake) && handshake.Phase == PhaseBanner && handshake.Temporary(),
		"err is %v", err)
	assertHint(t, err, "MaxStartups")
}

func TestDialNoCommonAlgorithm(t *testing.T) {
	_, files := newServer(t, func(s *server) {
		s.config.KeyExchanges = []string{"diffie-hellman-group14-sha1"}
	})
	_, err := Dial(t.Context(), files.Config())
	var handshake *HandshakeError
	var negotiation *xssh.AlgorithmNegotiationError
	must.That(t, errors.As(err, &handshake) && handshake.Phase == PhaseKex && errors.As(err, &negotiation),
		"err is %v", err)
	assertHint(t, err, "--launcher system-ssh --launch-agent-args '-o KexAlgorithms=+diffie-hellman-group14-sha1'")
}

func TestDialCancelled(t *testing.T) {
	files, stalled := stallingServer(t, "accept", "stop")
	cause := errors.New("the user had enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-stalled; cancel(cause) }()
	within(t, hangLimit, "Dial", func() {
		_, err := Dial(ctx, files.Config())
		check.That(t, errors.Is(err, cause), "err is %v", err)
	})
}

func TestProxyCommand(t *testing.T) {
	s, files := newServer(t)
	addr := s.listen.Addr().(*net.TCPAddr)
	helper := fmt.Sprintf("ProxyCommand env GORUN_TEST_NC=127.0.0.1:%d %s", addr.Port, os.Args[0])
	files.write(t, s, helper)
	c := dialTest(t, files)
	var out bytes.Buffer
	if err := c.Run(t.Context(), []string{"echo", "through"}, nil, &out, nil); err != nil ||
		out.String() != "through\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	check.That(t, c.RemoteAddr() == nil && c.LocalAddr() == nil,
		"addresses %v %v, want none", c.LocalAddr(), c.RemoteAddr())
	pid := c.wire.Conn.(*proxyConn).cmd.Process.Pid
	c.Close()
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); !os.IsNotExist(err) {
		t.Error("the proxy command has survived Close")
	}

	files.write(t, s, "ProxyCommand sh -c 'echo no way >&2'")
	_, err := Dial(t.Context(), files.Config())
	check.That(t, err != nil && strings.Contains(err.Error(), `the proxy command says "no way"`), "err is %v", err)
}

// TestMain lets the test binary be the nc of TestProxyCommand.
func TestMain(m *testing.M) {
	if addr := os.Getenv("GORUN_TEST_NC"); addr != "" {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			os.Exit(1)
		}
		go io.Copy(conn, os.Stdin)
		io.Copy(os.Stdout, conn)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestEndlessJumps(t *testing.T) {
	_, files := newServer(t)
	writeFile(t, files.config, "Host h\n  ProxyJump g\nHost g\n  ProxyJump h\n")
	_, err := Dial(t.Context(), files.Config())
	var config *ConfigError
	check.That(t, errors.As(err, &config) && strings.Contains(err.Error(), "jump hosts in a row"), "err is %v", err)
}

func TestExitRequests(t *testing.T) {
	if _, ok := parseExit("exit-status", []byte{1}); ok {
		t.Error("a cut status is taken")
	}
	if _, ok := parseExit("exit-signal", []byte{0, 0, 1}); ok {
		t.Error("a cut signal is taken")
	}
	e, ok := parseExit("exit-signal", xssh.Marshal(struct {
		Signal     string
		Core       bool
		Text, Lang string
	}{Signal: "\x1bODD"}))
	check.That(t, ok && e.ExitCode() == 128 && !strings.ContainsRune(e.Error(), 0x1b), "%+v, %v", e, ok)
}

func FuzzParseExit(f *testing.F) {
	f.Add("exit-status", []byte{0, 0, 0, 9})
	f.Add("exit-signal", []byte("\x00\x00\x00\x04TERM\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, request string, payload []byte) {
		if e, ok := parseExit(request, payload); ok && e.Signal != "" && (e.Status < 128 || e.Status > 143) {
			t.Errorf("%+v", e)
		}
	})
}
