package callback

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// listening opens a listener, and returns it with what arrives.
func listening(t *testing.T, hosts ...string) (*Listener, <-chan Arrival) {
	t.Helper()
	arrivals := make(chan Arrival, len(hosts)+1)
	l := must.Get(Listen(hosts, func(a Arrival) { arrivals <- a }, t.Logf))(t)
	t.Cleanup(l.Close)
	return l, arrivals
}

// local is a ticket for hosts that are this machine.
func local(l *Listener) Ticket {
	t := l.Ticket()
	t.Addresses = []string{"127.0.0.1"}
	return t
}

func address(l *Listener) string { return fmt.Sprintf("127.0.0.1:%d", l.Ticket().Port) }

// refused checks that the launcher closes a connection without a byte that a stranger could use.
func refused(t *testing.T, conn net.Conn) {
	t.Helper()
	defer conn.Close()
	got, err := io.ReadAll(conn)
	check.That(t, (err == nil || strings.Contains(err.Error(), "reset")) && !bytes.Contains(got, []byte("host")),
		"%q, %v", got, err)
}

func TestEveryHostConnectsOnce(t *testing.T) {
	l, arrivals := listening(t, "n1", "n2")
	var text bytes.Buffer
	must.Get(local(l).WriteTo(&text))(t)
	ticket := must.Get(ReadTicket(&text))(t)
	var all sync.WaitGroup
	defer all.Wait()
	for _, host := range []string{"n1", "n2"} {
		all.Go(func() {
			conn, err := Dial(t.Context(), ticket, "", Hello{host, "build"})
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, err = io.Copy(conn, conn)
			check.OK(t, err)
		})
	}
	for range 2 {
		a := <-arrivals
		check.That(t, a.Hello.Build == "build", "%+v", a.Hello)
		_, err := io.WriteString(a, a.Hello.Host)
		check.OK(t, err)
		got := make([]byte, len(a.Hello.Host))
		_, err = io.ReadFull(a, got)
		check.That(t, err == nil && string(got) == a.Hello.Host, "%q of %s, %v", got, a.Hello.Host, err)
		a.Close()
	}
	l.wg.Wait() // all have come, so it has closed itself
	if conn, err := net.Dial("tcp", address(l)); err == nil {
		conn.Close()
		t.Error("the port is open after the last host")
	}
}

func TestStrangersAreRefused(t *testing.T) {
	l, arrivals := listening(t, "n1", "n2")
	short := func() (context.Context, context.CancelFunc) { return context.WithTimeout(t.Context(), time.Second) }
	attempt := func(what string, ticket Ticket, hello Hello) {
		ctx, cancel := short()
		defer cancel()
		if conn, err := Dial(ctx, ticket, "", hello); err == nil {
			conn.Close()
			t.Errorf("%s was admitted", what)
		}
	}
	wrong := local(l)
	wrong.Seed = secure.NewSeed()
	attempt("another seed", wrong, Hello{"n1", ""})
	attempt("an unknown host", local(l), Hello{"n3", ""})
	impostor, _ := listening(t, "n1")
	elsewhere := local(l)
	elsewhere.Port = impostor.Ticket().Port
	elsewhere.Seed = impostor.Ticket().Seed
	attempt("a launcher with another key", elsewhere, Hello{"n1", ""})

	recorded := record(t, l, "n1")
	(<-arrivals).Close()
	attempt("a host that has come", local(l), Hello{"n1", ""})
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x00\x05hello",
		strings.Repeat("\xff", 1<<16), string(recorded)} {
		conn := must.Get(net.Dial("tcp", address(l)))(t)
		_, _ = io.WriteString(conn, text) // it may be closed already
		_ = conn.(*net.TCPConn).CloseWrite()
		refused(t, conn)
	}
	select {
	case a := <-arrivals:
		t.Errorf("%+v arrived", a.Hello)
	default:
	}
	conn, err := Dial(t.Context(), local(l), "", Hello{"n2", ""})
	must.OK(t, err, "the last host")
	defer conn.Close()
	if a := <-arrivals; a.Hello.Host != "n2" {
		t.Errorf("%+v", a.Hello)
	} else {
		a.Close()
	}
}

// record connects a host through a listener in the middle, and returns what the host has sent.
func record(t *testing.T, l *Listener, host string) (sent []byte) {
	t.Helper()
	middle := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer middle.Close()
	var copied sync.WaitGroup
	copied.Go(func() {
		host, err := middle.Accept()
		if err != nil {
			return
		}
		defer host.Close()
		launcher, err := net.Dial("tcp", address(l))
		if err != nil {
			return
		}
		defer launcher.Close()
		var answers sync.WaitGroup
		answers.Go(func() { _, _ = io.Copy(host, launcher) })
		var seen bytes.Buffer
		_, _ = io.Copy(launcher, io.TeeReader(host, &seen))
		launcher.Close()
		answers.Wait()
		sent = seen.Bytes()
	})
	ticket := local(l)
	ticket.Port = middle.Addr().(*net.TCPAddr).Port
	conn := must.Get(Dial(t.Context(), ticket, "", Hello{host, ""}))(t)
	conn.Close()
	copied.Wait()
	must.That(t, len(sent) != 0, "nothing was recorded")
	return sent
}

// Connections that say nothing are bounded, and keep no host out.
func TestHalfOpenFlood(t *testing.T) {
	l, arrivals := listening(t, "n1")
	for range maxPending + 64 {
		conn := must.Get(net.Dial("tcp", address(l)))(t)
		defer conn.Close()
	}
	conn := must.Get(Dial(t.Context(), local(l), "", Hello{"n1", ""}))(t)
	conn.Close()
	(<-arrivals).Close()
	l.wg.Wait()
	n := l.pending.Len()
	check.That(t, n <= maxPending, "%d connections in handshakes", n)
}

func TestTicketsThatLackSomething(t *testing.T) {
	for _, text := range []string{"", "{}", "{}\n", "x\n", `{"port":1,"launcher":"AA==","seed":"AA=="}` + "\n",
		strings.Repeat("x", 2*maxTicket)} {
		_, err := ReadTicket(strings.NewReader(text))
		check.That(t, err != nil, "%.50q is a ticket", text)
	}
}

func TestDialEndsWhereNothingListens(t *testing.T) {
	l, _ := listening(t, "n1")
	ticket := local(l)
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if conn, err := Dial(ctx, ticket, "127.0.0.2", Hello{"n1", ""}); err == nil {
		conn.Close()
		t.Error("connected to nothing")
	}
}

// A flood of strangers does not fill what -v prints.
func TestRefusedConnectionsAreNotAllTraced(t *testing.T) {
	var lines []string
	l := &Listener{trace: func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }}
	conn, other := net.Pipe()
	defer conn.Close()
	defer other.Close()
	for range 10 * maxRefused {
		l.refused(conn, io.EOF)
	}
	if len(lines) != maxRefused || !strings.HasSuffix(lines[maxRefused-1], "; more of them are not shown") {
		t.Errorf("%d lines, the last of them %q", len(lines), lines[len(lines)-1])
	}
}
