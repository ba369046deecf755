package callback

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/secure"
)

// Bounds on the connections that have not said hello. Hosts are this user's processes, here or
// elsewhere.
const (
	maxPending = 256
	maxOthers  = 16
)

// admitTime bounds the handshake and the hello of a connection. A host whose connection is closed
// tries again.
const admitTime = 10 * time.Second

// Hello is a host's first message.
type Hello struct {
	Host  string `json:"host"`
	Build string `json:"build"` // build id of the caller's gorun
}

// Arrival is the connection of a host.
type Arrival struct {
	net.Conn
	Hello Hello
}

// Close does not wait for a host that takes nothing, beyond the five seconds that package tls gives
// it. That would first wait for a Read which answers a change of keys, and so for the host.
func (a Arrival) Close() error {
	_ = a.Conn.SetWriteDeadline(time.Now())
	return a.Conn.Close()
}

// Listener waits for one connection of each host.
type Listener struct {
	ticket   Ticket
	config   *tls.Config
	listener net.Listener
	arrived  func(Arrival)
	trace    func(format string, args ...any)
	wg       sync.WaitGroup
	pending  *admit.Pending
	rejected atomic.Int64

	mu      sync.Mutex
	missing map[string]bool
}

// Listen opens a port for connections of the hosts. arrived gets the connection of a host, once; it
// must not block. The caller closes the listener, which also closes itself when all hosts have
// come.
func Listen(hosts []string, arrived func(Arrival), trace func(format string, args ...any)) (*Listener, error) {
	own, err := secure.NewCredentials(secure.NewSeed())
	if err != nil {
		return nil, err
	}
	seed := secure.NewSeed()
	theirs, err := secure.NewCredentials(seed)
	if err != nil {
		return nil, err
	}
	addresses, err := ownAddresses()
	if err != nil {
		return nil, fmt.Errorf("find the addresses of this machine: %w", err)
	}
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, fmt.Errorf("listen for the hosts: %w", err)
	}
	key := own.Fingerprint()
	l := &Listener{
		ticket:   Ticket{addresses, listener.Addr().(*net.TCPAddr).Port, key[:], seed},
		config:   own.TLS(theirs.Fingerprint()),
		listener: listener,
		arrived:  arrived,
		trace:    trace,
		pending:  admit.NewPending(admit.Bounds{Own: maxPending, Other: maxOthers, Elsewhere: maxPending}),
		missing:  map[string]bool{},
	}
	for _, host := range hosts {
		l.missing[host] = true
	}
	l.wg.Go(func() { l.pending.Serve(listener, l.admit) })
	return l, nil
}

// Ticket returns what hosts need to connect.
func (l *Listener) Ticket() Ticket { return l.ticket }

// Close closes the port and all connections that have not arrived, and waits for their ends.
func (l *Listener) Close() {
	l.shut()
	l.wg.Wait()
}

func (l *Listener) shut() {
	l.listener.Close()
	l.pending.Close()
}

// admit takes a connection whose other end proves the hosts' key and names a host that is missing.
func (l *Listener) admit(conn net.Conn) {
	encrypted := tls.Server(conn, l.config)
	_ = conn.SetDeadline(time.Now().Add(admitTime))
	hello, err := greet(encrypted)
	l.pending.Remove(conn)
	if err == nil {
		err = l.take(hello, encrypted)
	}
	if err != nil {
		l.refused(conn, err)
		conn.Close()
	}
}

// maxRefused bounds the traced refusals: strangers may cause any number.
const maxRefused = 16

func (l *Listener) refused(conn net.Conn, err error) {
	switch n := l.rejected.Add(1); {
	case n < maxRefused:
		l.trace("a connection from %v was refused: %v", conn.RemoteAddr(), err)
	case n == maxRefused:
		l.trace("a connection from %v was refused: %v; more of them are not shown", conn.RemoteAddr(), err)
	}
}

func greet(conn *tls.Conn) (hello Hello, err error) {
	if err := conn.Handshake(); err != nil {
		return hello, err
	}
	kind, data, err := frames.Read(conn)
	if err != nil {
		return hello, err
	}
	if kind != frames.Begin {
		return hello, fmt.Errorf("a frame of kind %d for a hello", kind)
	}
	return hello, json.Unmarshal(data, &hello)
}

// take hands over the connection of a host that is missing.
func (l *Listener) take(hello Hello, conn *tls.Conn) error {
	l.mu.Lock()
	missing := l.missing[hello.Host]
	delete(l.missing, hello.Host)
	l.mu.Unlock()
	if !missing {
		return fmt.Errorf("the host %q is not expected, or has already connected", hello.Host)
	}
	err := frames.Write(conn, frames.Begin, nil)
	l.mu.Lock()
	if err != nil {
		l.missing[hello.Host] = true // a host that hung up may call again
	}
	last := len(l.missing) == 0
	l.mu.Unlock()
	if err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Time{})
	l.arrived(Arrival{conn, hello})
	if last {
		l.shut()
	}
	return nil
}

// ownAddresses returns the addresses at which other hosts may reach this machine, and loopback
// last, for hosts that are this machine.
func ownAddresses() (texts []string, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	const most = 64
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && len(texts) < most {
			texts = append(texts, n.IP.String())
		}
	}
	return append(texts, "127.0.0.1"), nil
}
