package ssh

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/prose"
)

// proxyConn is a connection over the stdin and stdout of a ProxyCommand. Close kills the command's
// process group.
type proxyConn struct {
	in     *os.File // the command's stdin
	out    *os.File // the command's stdout
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the command has been waited for
	stderr *prose.Tail
	once   sync.Once
}

// startProxy runs command as ssh does: by exec of the user's shell.
func startProxy(command string) (*proxyConn, error) {
	if !strings.HasPrefix(command, "exec ") {
		command = "exec " + command
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, err
	}
	defer theirOut.Close()
	stderr := prose.NewTail(maxText)
	cmd := exec.Command("sh", "-c", command)
	cmd.Stdin = theirIn
	cmd.Stdout = theirOut
	cmd.Stderr = stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // a stray child may hold stderr open
	if err := cmd.Start(); err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	p := &proxyConn{
		in:     in,
		out:    out,
		cmd:    cmd,
		ended:  make(chan struct{}),
		stderr: stderr,
	}
	go func() {
		cmd.Wait() // the status is irrelevant; stderr has the cause
		close(p.ended)
	}()
	return p, nil
}

func (p *proxyConn) Read(b []byte) (int, error) {
	n, err := p.out.Read(b)
	if n == 0 && errors.Is(err, io.EOF) {
		err = p.explain(err)
	}
	return n, err
}

func (p *proxyConn) Write(b []byte) (int, error) {
	n, err := p.in.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		err = p.explain(err)
	}
	return n, err
}

// explain adds the command's stderr to an error of the stream.
func (p *proxyConn) explain(err error) error {
	select {
	case <-p.ended:
	case <-time.After(time.Second): // the command closed the stream but still runs
	}
	if text := p.stderr.String(); text != "" {
		return &proxyEnd{text}
	}
	return err
}

// proxyEnd reports a proxy command that ended with words on its stderr.
type proxyEnd struct{ said string }

func (e *proxyEnd) Error() string { return fmt.Sprintf("the proxy command says %q", e.said) }
func (e *proxyEnd) Unwrap() error { return io.ErrUnexpectedEOF }

func (p *proxyConn) Close() error {
	p.once.Do(func() {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		p.in.Close()
		p.out.Close()
		<-p.ended
	})
	return nil
}

type proxyAddr struct{}

func (proxyAddr) Network() string { return "proxy" }
func (proxyAddr) String() string  { return "0.0.0.0:0" } // known_hosts requires host:port

func (p *proxyConn) LocalAddr() net.Addr              { return proxyAddr{} }
func (p *proxyConn) RemoteAddr() net.Addr             { return proxyAddr{} }
func (p *proxyConn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (p *proxyConn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (p *proxyConn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }
