package gloo

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A connection says once that it is going to wait, and not before: for what is not there yet, and
// for a peer that does not read.
func TestConnectionThatWaits(t *testing.T) {
	listener := must.Get(Listen())(t)
	defer listener.Close()
	waits := 0
	meet := func() (client net.Conn, server *conn) {
		client = must.Get(net.Dial("tcp4", listener.Addr().String()))(t)
		t.Cleanup(func() { client.Close() })
		must.Get(io.WriteString(client, "begin"))(t)
		accepted := must.Get(listener.Accept())(t)
		t.Cleanup(func() { accepted.Close() })
		got := accepted.RemoteAddr().String()
		want := client.LocalAddr().String()
		check.That(t, got == want && accepted.LocalAddr().String() == listener.Addr().String(),
			"it comes from %s, and is said to come from %s, to %s", want, got, accepted.LocalAddr())
		server = accepted.(*conn)
		waits = 0
		server.beforeWait(func() { waits++ })
		_ = server.SetDeadline(time.Now().Add(20 * time.Second))
		buf := make([]byte, 9)
		n, err := server.Read(buf)
		must.That(t, err == nil && string(buf[:n]) == "begin" && waits <= 0, "%q, %v, %d waits", buf[:n], err, waits)
		return client, server
	}
	much := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // more than a socket holds
	client, server := meet()
	got := make(chan []byte, 1)
	go func() {
		time.Sleep(50 * time.Millisecond)
		text, _ := io.ReadAll(client)
		got <- text
	}()
	n, err := server.Write(much)
	check.That(t, n == len(much) && err == nil && waits == 1, "%d bytes, %v, %d waits", n, err, waits)
	server.Close()
	text := <-got
	check.That(t, bytes.Equal(text, much), "%d of %d bytes came", len(text), len(much))
	for name, act := range map[string]func(*conn) (int, error){
		"nobody reads":  func(c *conn) (int, error) { return c.Write(much) },
		"nobody writes": func(c *conn) (int, error) { return c.Read(make([]byte, 1)) },
	} {
		_, server := meet()
		_ = server.SetDeadline(time.Now().Add(50 * time.Millisecond))
		_, err := act(server)
		check.That(t, errors.Is(err, os.ErrDeadlineExceeded) && waits == 1, "%s: %v, %d waits", name, err, waits)
	}
	client, server = meet()
	client.Close()
	_, err = server.Read(make([]byte, 1))
	check.Equal(t, err, io.EOF, "the end")
}
