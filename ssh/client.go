package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

const (
	// sessionTimeout bounds the server's answer to "open a session, run this".
	sessionTimeout = 20 * time.Second
	// closeTimeout bounds the server's answer to the end of a session.
	closeTimeout = 5 * time.Second
	// farewellTimeout bounds the wait for what a server sent before it closed the connection.
	farewellTimeout = time.Second
	// maxLeft bounds the sessions that are over and that the server has not ended. sshd allows 10
	// sessions in all (MaxSessions).
	maxLeft = 64
	// discardPeriod is short: in a second a server sends enough for some 50 MiB of memory.
	discardPeriod = 100 * time.Millisecond
)

var (
	errBroken = errors.New("the server broke the SSH protocol")
	errLeft   = errors.New("the server does not end sessions that are over")
)

// Client is an authenticated connection to one host. It is safe for concurrent use. Each Run or Put
// takes one session, of which servers allow few.
type Client struct {
	target  Target
	wire    *wire
	conn    *xssh.Client
	ended   chan struct{}  // closed when the connection has ended
	endErr  error          // the library's error; valid once ended is closed
	stuck   chan struct{}  // closed when the connection has ended and the library may never return
	hostKey []byte         // host key that the server has proved to own
	userKey Key            // key that the server accepted
	offered int            // keys that were offered
	work    sync.WaitGroup // goroutines that end when the connection does

	sessionTimeout, closeTimeout time.Duration // the constants; shorter in tests
	reuse                        atomic.Bool   // whether the server may still count an ended session
	left                         atomic.Int32  // sessions that are over and that the server has not ended
}

func newClient(t Target, w *wire, conn *xssh.Client) *Client {
	c := &Client{
		target:         t,
		wire:           w,
		conn:           conn,
		ended:          make(chan struct{}),
		stuck:          make(chan struct{}),
		sessionTimeout: sessionTimeout,
		closeTimeout:   closeTimeout,
	}
	waited := make(chan error, 1)
	// Close cannot wait for it: it stays when the library is stuck, see end.
	go func() { waited <- conn.Wait() }()
	c.work.Go(func() { c.end(waited) })
	return c
}

// end records the end of the connection. The library closes the wire first and may then hang: if
// a violation of the protocol is followed by 16 packets (x/crypto v0.58, handshakeTransport.Close).
// Where the server has left a change of keys open as well, whoever waits to write waits for ever.
func (c *Client) end(waited <-chan error) {
	defer close(c.ended)
	select {
	case c.endErr = <-waited:
		return
	case <-c.wire.done:
	}
	select {
	case c.endErr = <-waited:
	case <-time.After(time.Second):
		c.endErr = errBroken
		close(c.stuck)
	}
}

// unlessStuck returns the error of f, and leaves f behind if the library hangs. c may be nil.
func (c *Client) unlessStuck(f func() error) error {
	if c == nil {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-c.stuck:
		return c.lost(nil)
	}
}

// LocalAddr returns this end of the TCP connection, or nil if a jump host or a proxy command
// carries it.
func (c *Client) LocalAddr() net.Addr { return c.tcp(c.wire.LocalAddr()) }

// RemoteAddr returns the host's end of the TCP connection, or nil as LocalAddr does.
func (c *Client) RemoteAddr() net.Addr { return c.tcp(c.wire.RemoteAddr()) }

// Keys returns the key that the host has proved to own, the user's key that it took, and how many
// keys were offered for that. A server that asked for none took none.
func (c *Client) Keys() (host HostKey, user Key, offered int) {
	if key, err := xssh.ParsePublicKey(c.hostKey); err == nil {
		host = HostKey{Type: key.Type(), Fingerprint: xssh.FingerprintSHA256(key)}
	}
	return host, c.userKey, c.offered
}

func (c *Client) tcp(addr net.Addr) net.Addr {
	if _, ok := c.wire.Conn.(*net.TCPConn); !ok {
		return nil
	}
	return addr
}

// BySSH reports that SSH_CONNECTION on the host describes this connection.
func (c *Client) BySSH() bool { return true }

// Close ends the connection, its sessions and the connections to its jump hosts. It may be called
// at any time and more than once.
func (c *Client) Close() error {
	err := c.wire.Close()
	_ = c.unlessStuck(func() error {
		c.work.Wait()
		return nil
	})
	if c.wire.via != nil {
		c.wire.via.Close()
	}
	return err
}

// lost explains why the connection gave no status.
func (c *Client) lost(err error) error {
	if _, _, fault := c.wire.state(); errors.Is(fault, syscall.ETIMEDOUT) {
		err = fmt.Errorf("no answer from its kernel for %v, the network or the host is dead: %w", UserTimeout,
			syscall.ETIMEDOUT)
	} else if fault != nil {
		if err = c.farewell(); err == nil {
			err = fault
		}
	} else if c.wire.isClosed() {
		err = c.closeReason()
	}
	if err == nil {
		return &LostError{c.target, nil}
	}
	return &LostError{c.target, foreign{err}}
}

// farewell returns how the server ended the protocol, for example by a disconnect message, or nil.
// It waits for the reader, because a write may have failed before the message was read.
func (c *Client) farewell() error {
	select {
	case <-c.ended:
	case <-time.After(farewellTimeout):
		return nil
	}
	var stream net.Error
	switch err := c.endErr; {
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed), errors.As(err, &stream):
		return nil
	default:
		return err
	}
}

// closeReason distinguishes a server that violated the protocol from our own Close.
func (c *Client) closeReason() error {
	<-c.ended
	if err := c.endErr; err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return net.ErrClosed
}

// hold counts a session that is over until the server has ended it too. A server that does not end
// maxLeft of them loses the connection.
func (c *Client) hold(ended <-chan struct{}) {
	if c.left.Add(1) > maxLeft {
		c.wire.fail(errLeft)
	}
	c.work.Go(func() {
		<-ended
		c.left.Add(-1)
	})
}

// session is a channel on which the server runs a command or subsystem.
type session struct {
	client  *Client
	channel xssh.Channel
	exited  chan struct{} // closed when the status has arrived
	closed  chan struct{} // closed when the server has closed the channel
	status  *ExitError    // valid once exited is closed; nil for status 0
}

// refusedError reports that the server refused an exec or subsystem request.
type refusedError struct{ request string }

func (e refusedError) Error() string { return "request " + e.request + " refused" }

// start opens a session and requests "exec" for a command or "subsystem" for a subsystem. If ctx
// ends, or the server does not answer in time, only this session is abandoned: the connection may
// carry others. The library cannot cancel a request, so the goroutine that made it stays until the
// answer comes or the connection ends.
func (c *Client) start(ctx context.Context, request, what string) (*session, error) {
	tctx, cancel := context.WithTimeoutCause(ctx, c.sessionTimeout, errTimeout)
	defer cancel()
	if tctx.Err() != nil {
		return nil, fmt.Errorf("%s: %w", c.target, context.Cause(tctx))
	}
	type answer struct {
		s   *session
		err error
	}
	answers := make(chan answer)
	answered := make(chan struct{})
	c.work.Go(func() {
		s, err := c.open(tctx, request, what)
		close(answered)
		select {
		case answers <- answer{s, err}:
		case <-tctx.Done():
			if s != nil {
				s.abandon()
			}
		}
	})
	select {
	case a := <-answers:
		return a.s, a.err
	case <-tctx.Done():
	}
	c.hold(answered)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: starting a session: %w", c.target, context.Cause(ctx))
	}
	return nil, &SessionError{c.target, errTimeout}
}

// open is start without a time limit. If ctx has ended, it closes the session that the server
// opens.
func (c *Client) open(ctx context.Context, request, what string) (*session, error) {
	channel, requests, err := c.openChannel()
	var refused *xssh.OpenChannelError
	if errors.As(err, &refused) && c.reuse.Load() {
		// sshd frees an ended session only after it has processed its input, in which this request
		// followed the end. By now it has.
		channel, requests, err = c.openChannel()
	}
	if errors.As(err, &refused) {
		return nil, &SessionError{c.target, foreign{err}}
	}
	if err != nil {
		return nil, c.lost(err)
	}
	s := &session{
		client:  c,
		channel: channel,
		exited:  make(chan struct{}),
		closed:  make(chan struct{}),
	}
	c.work.Go(func() { s.listen(requests) })
	stop := context.AfterFunc(ctx, func() { channel.Close() }) // which ends the request
	payload := xssh.Marshal(struct{ Text string }{what})
	ok := false
	err = context.Cause(ctx)
	if err == nil {
		ok, err = channel.SendRequest(request, true, payload)
	}
	if !stop() || ctx.Err() != nil {
		s.abandon()
		return nil, context.Cause(ctx)
	}
	if err != nil {
		s.end()
		return nil, c.lost(err)
	}
	if !ok {
		s.end()
		return nil, &SessionError{c.target, refusedError{request}}
	}
	return s, nil
}

// openChannel opens a session channel, or fails when the connection ends. The library's call hangs
// if the connection ends just before it. Such a call stays behind; checking for the end first makes
// that rare.
func (c *Client) openChannel() (xssh.Channel, <-chan *xssh.Request, error) {
	if _, _, fault := c.wire.state(); fault != nil {
		return nil, nil, fault
	}
	type answer struct {
		channel  xssh.Channel
		requests <-chan *xssh.Request
		err      error
	}
	answers := make(chan answer, 1)
	go func() {
		channel, requests, err := c.conn.OpenChannel("session", nil)
		answers <- answer{channel, requests, err}
	}()
	select {
	case a := <-answers:
		return a.channel, a.requests, a.err
	case <-c.ended:
		return nil, nil, net.ErrClosed
	}
}

// listen handles the server's requests on the session until the server closes it.
func (s *session) listen(requests <-chan *xssh.Request) {
	defer close(s.closed)
	defer s.client.reuse.Store(true)
	known := false
	for r := range requests {
		status, ok := parseExit(r.Type, r.Payload)
		if ok && !known {
			known = true
			if status.Status != 0 {
				status.Target = s.client.target
				s.status = &status
			}
			close(s.exited)
		}
		if r.WantReply {
			r.Reply(false, nil)
		}
	}
}

// leave closes the session, and does not wait for the server, which may hold it as long as the
// command lives.
func (s *session) leave() {
	select {
	case <-s.closed:
		return
	default:
	}
	s.client.work.Go(func() { s.channel.Close() })
	s.client.hold(s.closed)
}

// abandon leaves a session whose streams nobody reads.
func (s *session) abandon() {
	for _, from := range []io.Reader{s.channel, s.channel.Stderr()} {
		s.client.work.Go(func() { s.discard(from) })
	}
	s.leave()
}

// discard takes what the server sends on a stream, until it has closed the session: the SSH library
// would keep all of it, and of pieces of one byte many times their size. It keeps what comes behind
// an end of file too, so discard looks again and again.
func (s *session) discard(from io.Reader) {
	var piece [512]byte
	ticker := time.NewTicker(discardPeriod)
	defer ticker.Stop()
	for {
		_, err := from.Read(piece[:])
		if err == nil {
			continue
		}
		select {
		case <-ticker.C:
		case <-s.closed:
			return
		case <-s.client.stuck:
			return
		}
	}
}

// end closes the session and waits until the server has closed it, so that the server no longer
// counts it. If the server does not, end closes the connection.
func (s *session) end() {
	late := time.AfterFunc(s.client.closeTimeout, func() { s.client.wire.Close() })
	defer late.Stop()
	s.client.work.Go(func() { s.channel.Close() })
	select {
	case <-s.closed:
	case <-s.client.stuck:
	}
}
