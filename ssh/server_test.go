package ssh

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/pkg/sftp"
	xssh "golang.org/x/crypto/ssh"
)

// server is an SSH server in this process. It runs commands by sh in its home.
type server struct {
	home    string
	hostKey xssh.Signer
	listen  net.Listener
	config  *xssh.ServerConfig
	done    sync.WaitGroup

	noSFTP      bool
	linked      func(*xssh.ServerConn)                      // called for every connection that got in
	opening     func()                                      // called when one is asked for
	opened      func()                                      // called when a session stands
	sftpNoise   string                                      // what a start file prints before sftp
	maxSessions int                                         // 0: any number
	wrap        func(net.Conn) net.Conn                     // of every connection
	exec        func(context.Context, xssh.Channel, string) // in the place of sh
	mu          sync.Mutex
	sessions    int
	conns       map[net.Conn]bool
}

// client side of the server: a directory with key, known_hosts and ssh_config.
type clientFiles struct {
	dir      string
	identity string
	known    string
	config   string
	key      xssh.Signer
}

// newServer starts a server that lets the files' key in, after the options are
// applied, and ends it with the test.
func newServer(t testing.TB, options ...func(*server)) (*server, *clientFiles) {
	t.Helper()
	noLeaks(t)
	return startServer(t, options...)
}

// startServer is newServer for tests that look for leaks themselves.
func startServer(t testing.TB, options ...func(*server)) (*server, *clientFiles) {
	t.Helper()
	files := &clientFiles{dir: t.TempDir()}
	files.identity = filepath.Join(files.dir, "id")
	files.key = writeKey(t, files.identity)
	s := &server{home: t.TempDir(), hostKey: newSigner(t), conns: map[net.Conn]bool{}}
	allowed := string(files.key.PublicKey().Marshal())
	s.config = &xssh.ServerConfig{
		PublicKeyCallback: func(meta xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
			if string(key.Marshal()) != allowed {
				return nil, errors.New("unknown key")
			}
			return nil, nil
		},
	}
	s.config.AddHostKey(s.hostKey)
	for _, option := range options {
		option(s)
	}
	s.listen = must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.done.Go(s.serve)
	t.Cleanup(s.close)
	files.write(t, s)
	return s, files
}

// write makes known_hosts and ssh_config, where the server is called h.
func (f *clientFiles) write(t testing.TB, s *server, more ...string) {
	t.Helper()
	addr := s.listen.Addr().(*net.TCPAddr)
	f.known = filepath.Join(f.dir, "known_hosts")
	f.config = filepath.Join(f.dir, "ssh_config")
	key := string(xssh.MarshalAuthorizedKey(s.hostKey.PublicKey()))
	writeFile(t, f.known, fmt.Sprintf("[127.0.0.1]:%d %s", addr.Port, key))
	writeFile(t, f.config, fmt.Sprintf(`Host h
  HostName 127.0.0.1
  Port %d
  User someone
  %s
Host *
  IdentityFile %s
  IdentitiesOnly yes
  IdentityAgent none
  UserKnownHostsFile %s
  GlobalKnownHostsFile /dev/null
`, addr.Port, strings.Join(more, "\n  "), f.identity, f.known))
}

func (f *clientFiles) Config() Config {
	return Config{Host: "h", ConfigFile: f.config, HandshakeTimeout: 10 * time.Second}
}

func dialTest(t testing.TB, f *clientFiles) *Client {
	t.Helper()
	c := must.Get(Dial(t.Context(), f.Config()))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *server) serve() {
	for {
		conn, err := s.listen.Accept()
		if err != nil {
			return
		}
		if s.wrap != nil {
			conn = s.wrap(conn)
		}
		s.mu.Lock()
		s.conns[conn] = true
		s.mu.Unlock()
		s.done.Go(func() { s.handle(conn) })
	}
}

func (s *server) close() {
	s.listen.Close()
	s.mu.Lock()
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
}

func (s *server) handle(conn net.Conn) {
	defer conn.Close()
	link, channels, requests, err := xssh.NewServerConn(conn, s.config)
	if err != nil {
		return
	}
	defer link.Close()
	s.done.Go(func() { xssh.DiscardRequests(requests) })
	if s.linked != nil {
		s.linked(link)
	}
	for open := range channels {
		if open.ChannelType() != "session" {
			open.Reject(xssh.UnknownChannelType, "no")
			continue
		}
		if s.opening != nil {
			s.opening()
		}
		if !s.take() {
			open.Reject(xssh.Prohibited, "open failed\x1b[2J")
			continue
		}
		ch, requests, err := open.Accept()
		if err != nil {
			return
		}
		if s.opened != nil {
			s.opened()
		}
		s.done.Go(func() { s.session(ch, requests) })
	}
}

// take takes a session's slot. One that is being closed right now is waited for:
// the library answers the client's close before our handler knows of it.
func (s *server) take() bool {
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		free := s.maxSessions == 0 || s.sessions < s.maxSessions
		if free {
			s.sessions++
		}
		s.mu.Unlock()
		if free || time.Now().After(deadline) {
			return free
		}
	}
}

func (s *server) give() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions--
}

func (s *server) session(ch xssh.Channel, requests <-chan *xssh.Request) {
	defer ch.Close()
	defer s.give()
	for r := range requests {
		var text struct{ Text string }
		xssh.Unmarshal(r.Payload, &text)
		run := s.exec
		switch {
		case r.Type == "exec" && run == nil:
			run = s.shell
		case r.Type == "subsystem" && text.Text == "sftp" && !s.noSFTP:
			run = s.sftp
		case r.Type != "exec":
			r.Reply(false, nil)
			continue
		}
		r.Reply(true, nil)
		gone, cancel := context.WithCancel(context.Background())
		s.done.Go(func() {
			xssh.DiscardRequests(requests)
			cancel()
		})
		run(gone, ch, text.Text)
		return
	}
}

func (s *server) sftp(_ context.Context, ch xssh.Channel, _ string) {
	if s.sftpNoise != "" {
		io.WriteString(ch, s.sftpNoise)
		io.Copy(io.Discard, ch)
		return
	}
	if server, err := sftp.NewServer(ch, sftp.WithServerWorkingDirectory(s.home)); err == nil {
		server.Serve()
	}
}

// shell runs a command like sshd: it closes the channel when the command and its
// output have ended. gone ends when the client has closed the channel.
func (s *server) shell(gone context.Context, ch xssh.Channel, command string) {
	cmd := exec.CommandContext(gone, "sh", "-c", command)
	cmd.Dir = s.home
	cmd.Stdout = ch
	cmd.Stderr = ch.Stderr()
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return
	}
	if err := cmd.Start(); err != nil {
		return
	}
	go func() { // ends with the channel
		io.Copy(stdin, ch)
		stdin.Close()
	}()
	cmd.Wait()
	sendExit(ch, cmd.ProcessState.Sys().(syscall.WaitStatus))
}

func sendExit(ch xssh.Channel, status syscall.WaitStatus) {
	if !status.Signaled() {
		ch.SendRequest("exit-status", false, xssh.Marshal(struct{ Status uint32 }{uint32(status.ExitStatus())}))
		return
	}
	name := map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGKILL: "KILL"}[status.Signal()]
	ch.SendRequest("exit-signal", false, xssh.Marshal(struct {
		Signal     string
		Core       bool
		Text, Lang string
	}{Signal: name}))
}

func newSigner(t testing.TB) xssh.Signer {
	t.Helper()
	_, private := must.GetTwo(ed25519.GenerateKey(rand.Reader))(t)
	return must.Get(xssh.NewSignerFromKey(private))(t)
}

// writeKey writes a new private key, with a passphrase if one is given.
func writeKey(t testing.TB, path string, passphrase ...string) xssh.Signer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must.OK(t, err)
	var block *pem.Block
	if len(passphrase) > 0 {
		block, err = xssh.MarshalPrivateKeyWithPassphrase(private, "", []byte(passphrase[0]))
	} else {
		block, err = xssh.MarshalPrivateKey(private, "")
	}
	must.OK(t, err)
	must.OK(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	return must.Get(xssh.NewSignerFromKey(private))(t)
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

// noLeaks fails the test when more goroutines are left at its end than now. It
// must be called before what is cleaned up later.
func noLeaks(t testing.TB) {
	t.Helper()
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for runtime.NumGoroutine() > before {
			if time.Now().After(deadline) {
				var stacks strings.Builder
				pprof.Lookup("goroutine").WriteTo(&stacks, 1)
				t.Errorf("%d goroutines, %d at first:\n%s", runtime.NumGoroutine(), before, stacks.String())
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
}

// hangLimit is a time after which what should have ended counts as hanging, on a busy machine too.
const hangLimit = 15 * time.Second

// within fails the test when f takes longer than d.
func within(t testing.TB, d time.Duration, what string, f func()) {
	t.Helper()
	start := time.Now()
	f()
	took := time.Since(start)
	check.That(t, took <= d, "%s took %v, want %v at most", what, took, d)
}

func timeout(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
