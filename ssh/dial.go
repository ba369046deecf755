package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gorun/gorun/internal/prose"
)

// maxJumps bounds a chain of jump hosts, which a configuration can make endless.
const maxJumps = 8

// lookupTimeout bounds the lookup of a host's address.
const lookupTimeout = 5 * time.Second

var (
	errTimeout = errors.New("no answer in time")
	errLookup  = errors.New("name servers: no answer in time")
)

// UserTimeout is how long data may stay unacknowledged before the connection fails. After an outage
// of less than five seconds the kernel has retransmitted by then.
const UserTimeout = 5500 * time.Millisecond

// Dial connects to a host and authenticates. Ctx bounds only Dial; the Client lives until Close.
func Dial(ctx context.Context, c Config) (*Client, error) { return dial(ctx, c, "", 0) }

// dial is Dial through the given jump hosts, or through the configured ones if jump is empty. Depth
// counts the dials that wait for this one.
func dial(ctx context.Context, c Config, jump string, depth int) (*Client, error) {
	if depth > maxJumps {
		return nil, &ConfigError{c.Host, fmt.Errorf("more than %d jump hosts in a row", maxJumps)}
	}
	s, err := resolve(ctx, c)
	if err != nil {
		return nil, err
	}
	if jump != "" {
		s.jump = jump
	}
	w, err := connect(ctx, c, s, depth)
	if err != nil {
		return nil, err
	}
	client, err := handshake(ctx, s, w, c.Resolver)
	if err != nil {
		w.Close()
		if w.via != nil {
			w.via.Close()
		}
		return nil, err
	}
	return client, nil
}

// connect opens the byte stream to the host as configured.
func connect(ctx context.Context, c Config, s settings, depth int) (*wire, error) {
	switch {
	case s.jump != "":
		return connectByJump(ctx, c, s, depth)
	case s.proxyCommand != "":
		conn, err := startProxy(s.proxyCommand)
		if err != nil {
			return nil, s.proxyError(fmt.Errorf("proxy command: %w", err))
		}
		return newWire(conn, nil), nil
	}
	return connectTCP(ctx, s)
}

func connectTCP(ctx context.Context, s settings) (*wire, error) {
	tctx, cancel := context.WithTimeoutCause(ctx, s.connectTimeout, errTimeout)
	defer cancel()
	tctx, giveUp := context.WithCancelCause(tctx)
	defer giveUp(nil)
	// An address is known when the first socket is made.
	looking := time.AfterFunc(lookupTimeout, func() { giveUp(errLookup) })
	defer looking.Stop()
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable:   true,
		Idle:     15 * time.Second,
		Interval: 5 * time.Second,
		Count:    3,
	}, Control: func(string, string, syscall.RawConn) error {
		looking.Stop()
		return nil
	}}
	dialer.SetMultipathTCP(false) // TCP_USER_TIMEOUT does not apply to its subflows
	conn, err := dialer.DialContext(tctx, "tcp", s.address())
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%s: connecting: %w", s.target(), context.Cause(ctx))
		}
		if cause := context.Cause(tctx); errors.Is(cause, errLookup) {
			err = cause
		}
		return nil, dialError(s.target(), err)
	}
	if err := setUserTimeout(conn, UserTimeout); err != nil {
		conn.Close()
		return nil, &UnreachableError{s.target(), err}
	}
	return newWire(conn, nil), nil
}

func dialError(t Target, err error) error {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &dns), errors.Is(err, errLookup):
		return &UnresolvedError{t, err}
	case errors.Is(err, syscall.EINVAL) && t.linkLocal() != nil:
		return &AddressError{t, t.linkLocal()}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &RefusedError{t, err}
	case errors.Is(err, syscall.ECONNRESET): // the connection existed for a moment
		return &HandshakeError{t, PhaseBanner, "", endedError{err}}
	case errors.As(err, &timeout) && timeout.Timeout():
		return &UnreachableError{t, errTimeout}
	}
	return &UnreachableError{t, err}
}

// connectByJump opens the stream through the last hop of s.jump, which it reaches through the other
// hops.
func connectByJump(ctx context.Context, c Config, s settings, depth int) (*wire, error) {
	before, hop, err := c.lastHop(s.jump)
	if err != nil {
		return nil, err
	}
	via, err := dial(ctx, hop, before, depth+1)
	if err != nil {
		return nil, fmt.Errorf("%s: jump host: %w", s.alias, err)
	}
	tctx, cancel := context.WithTimeoutCause(ctx, s.connectTimeout, errTimeout)
	defer cancel()
	conn, err := via.conn.DialContext(tctx, "tcp", s.address())
	if err == nil {
		return newWire(conn, via), nil
	}
	via.Close()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s: connecting: %w", s.target(), context.Cause(ctx))
	}
	if tctx.Err() != nil {
		err = errTimeout
	}
	var refused *xssh.OpenChannelError
	return nil, &ForwardError{
		Target:    s.target(),
		Via:       via.target,
		Forbidden: errors.As(err, &refused) && refused.Reason == xssh.Prohibited,
		Try:       settings{byHand: hop.byHand()}.shell("ssh", "ssh-keyscan", "-p", strconv.Itoa(s.port), s.hostname),
		Err:       foreign{err},
	}
}

// proxyError returns the error of a proxy command that does not connect.
func (s settings) proxyError(err error) error {
	return &ProxyError{s.target(), s.shell("ssh -G") + " | grep -i proxycommand", err}
}

// lastHop returns the way to the last of several jump hosts, and the hosts before it.
func (c Config) lastHop(jump string) (before string, hop Config, err error) {
	last := jump
	if i := strings.LastIndexByte(jump, ','); i >= 0 {
		before = jump[:i]
		last = jump[i+1:]
	}
	hop = c
	if hop.User, hop.Host, hop.Port, err = splitHop(last); err != nil {
		return "", hop, &ConfigError{c.Host, fmt.Errorf("jump host %q: %w", last, err)}
	}
	return before, hop, nil
}

// splitHop splits one hop of ProxyJump: [user@]host[:port], or an ssh:// address.
func splitHop(hop string) (user, host string, port int, err error) {
	hop = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(hop), "ssh://"), "/")
	if i := strings.LastIndexByte(hop, '@'); i >= 0 {
		user = hop[:i]
		hop = hop[i+1:]
	}
	host = hop
	if strings.Count(hop, ":") == 1 || strings.HasPrefix(hop, "[") && strings.Contains(hop, "]:") {
		var text string
		if host, text, err = net.SplitHostPort(hop); err != nil {
			return "", "", 0, err
		}
		if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return "", "", 0, fmt.Errorf("port %q is not between 1 and 65535", text)
		}
	}
	return user, strings.Trim(host, "[]"), port, nil
}

// handshake authenticates on an open stream. The caller closes w if it fails. r may be nil.
func handshake(ctx context.Context, s settings, w *wire, r *Resolver) (*Client, error) {
	hctx, cancel := context.WithTimeoutCause(ctx, s.handshakeTimeout, errTimeout)
	defer cancel()
	stop := context.AfterFunc(hctx, func() { w.Close() })
	defer stop()
	target := s.target()
	if addr := w.RemoteAddr(); w.via == nil && addr.Network() == "tcp" {
		target.Addr = addr.String()
	}
	keys, err := newHostKeys(s, target, r)
	if err == nil {
		err = keys.order(hctx)
	}
	if err != nil {
		return nil, err
	}
	auth := newAuthenticator(hctx, s, target)
	defer auth.close()
	var conn *xssh.Client
	err = w.via.unlessStuck(func() error {
		c, channels, requests, err := xssh.NewClientConn(w, s.address(), clientConfig(hctx, s, w, keys, auth))
		if err == nil {
			conn = xssh.NewClient(c, channels, requests)
		}
		return err
	})
	if err != nil {
		return nil, handshakeError(ctx, hctx, target, w, keys, auth, err)
	}
	if !stop() { // ctx ended with the last byte, and the stream is closed
		conn.Close()
		return nil, handshakeError(ctx, hctx, target, w, keys, auth, hctx.Err())
	}
	client := newClient(target, w, conn)
	client.hostKey = keys.accepted.Marshal()
	if client.offered = auth.offered; client.offered > 0 {
		client.userKey = auth.keys[auth.offered-1].fact()
	}
	return client, nil
}

// handshakeError returns the error of a failed handshake: a timeout first, then a refused host key,
// then a refused user.
func handshakeError(ctx, hctx context.Context, t Target, w *wire, keys *hostKeys, auth *authenticator,
	err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		err = inner // the library's "handshake failed" adds nothing
	}
	phase, said, fault := w.state()
	said = prose.Printable(said)
	if text := auth.said.String(); text != "" {
		said = text
	}
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %s: %w", t, phase, context.Cause(ctx))
	case hctx.Err() != nil:
		err = errTimeout
	case keys.refusal != nil:
		return keys.refusal
	case errors.As(fault, new(*proxyEnd)):
		return auth.settings.proxyError(fault)
	case phase == PhaseAuth && fault == nil:
		return auth.failure(err)
	case fault != nil && (errors.Is(err, io.EOF) || errors.Is(err, fault) || errors.Is(err, errNoMoreKeys) ||
		errors.Is(err, net.ErrClosed)):
		err = endedError{fault}
	}
	return &HandshakeError{t, phase, said, foreign{err}}
}
