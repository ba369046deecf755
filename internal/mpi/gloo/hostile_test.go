package gloo

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

func TestRefusals(t *testing.T) {
	w := newWorld(t, 2, 2)
	two := record(rand.New(rand.NewPCG(0, 0)), 0, 3, 0)
	other := record(rand.New(rand.NewPCG(0, 0)), 0, 3, 1)
	for _, tc := range []struct {
		method, path string
		body         []byte
		want         int
	}{
		{"GET", "/global/0", nil, 404},
		{"GET", "/global/rank_0", nil, 404},
		{"PUT", "/global/0", two, 200},
		{"GET", "/global/3", nil, 404},
		{"PUT", "/global/0", two, 200}, // the same again
		{"PUT", "/global/0", other, 409},
		{"PUT", "/global/1", other, 409}, // it is rank 0
		{"PUT", "/global/1", two[:100], 500},
		{"PUT", "/global/2", two, 500},
		{"PUT", "/global/1", append(two, two...), 500},
		{"PUT", "/global/rank_0", []byte("a"), 200},
		{"PUT", "/global/rank_0", []byte("b"), 409},
		{"GET", "/global/2", nil, 404},
		{"GET", "/global/rank_x", nil, 404},
		{"GET", "/other/0", nil, 404},
		{"DELETE", "/other/0", nil, 200},
		{"DELETE", "/global/1", nil, 200},
		{"POST", "/global/0", nil, 400},
		{"GET", "/global", nil, 400},
		{"GET", "/a/b/c", nil, 400},
		{"GET", "global/0", nil, 400},
	} {
		got, _, err := w.ask(0, tc.method, tc.path, tc.body)
		check.That(t, err == nil && got == tc.want, "%s %s: %d, %v; want %d", tc.method, tc.path, got, err, tc.want)
	}
}

// A value that another host publishes for a rank is kept only if it is no longer than addresses.
func TestLongAddressesAreNotKept(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	store := fake.NewStore(2)
	h := NewHost(ctx, store)
	defer h.Wait()
	defer cancel()
	must.OK(t, store.Put("gloo/0/global/1", make([]byte, 1<<20)))
	r := h.Rank()
	must.OK(t, r.put("global", "0", record(rand.New(rand.NewPCG(0, 0)), 0, 2, 0)))
	_, _, err := r.get(ctx, "global", "1", func() {})
	check.Error(err).Is(t, errCut)
	kept := h.scopes["gloo/0/global"].values["1"].value
	check.Equal(t, len(kept), 0, "bytes are kept")
}

func TestPagesOfTheWebAreRefused(t *testing.T) {
	for fields, want := range map[string]bool{
		"": true, "Host: 127.0.0.1": true, "Host: 127.0.0.1:4711\r\nUser-Agent: Python-urllib/3.11": true,
		"Host: rebound.example": false, "host:rebound.example:4711": false, "Host: 10.0.0.1": false,
		"Host: 127.0.0.1:4711\r\nSec-Fetch-Site: cross-site":     false,
		"Host: 127.0.0.1:4711\r\nReferer: https://evil.example/": false,
		"Host: 127.0.0.1:4711\r\nORIGIN: null":                   false,
	} {
		_, err := parseHead("GET /rank_and_size/f1:0 HTTP/1.1\r\n" + fields)
		check.Equal(t, err == nil, want, fields)
	}
}

func FuzzHead(f *testing.F) {
	f.Add("GET /global/0 HTTP/1.1\r\nHost: a\r\nContent-Length: 0")
	f.Add("PUT /a/b HTTP/1.1\r\nContent-Length: 99999999999999999999")
	f.Fuzz(func(t *testing.T, head string) {
		r, err := parseHead(head)
		if err == nil && (r.scope == "" || r.key == "" || r.length < 0) {
			t.Errorf("%q: %+v", head, r)
		}
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(record(rand.New(rand.NewPCG(1, 2)), 1, 2, 0))
	var three []byte // one of each kind
	for peer := range 3 {
		three = append(three, record(rand.New(rand.NewPCG(1, 2)), 3, peer, 0)...)
	}
	packed := must.Get(pack(three))(f)
	f.Add(packed)
	f.Add(packed[:len(packed)-1])
	f.Add(slices.Concat(packed, packed))
	f.Fuzz(func(t *testing.T, data []byte) {
		if packed, err := pack(data); err == nil {
			n := len(data) / recordSize
			must.OK(t, checkRecords(packed, n))
			back := unpack(nil, packed)
			must.That(t, len(back) == len(data), "%d bytes became %d", len(data), len(back))
			for i := range n {
				b := back[i*recordSize:][:recordSize]
				a := data[i*recordSize:][:recordSize]
				check.That(t, meaning(a) == meaning(b), "%x became %x", a, b)
			}
		}
		check.That(t, checkRecords(data, 3) != nil || len(unpack(nil, data)) == 3*recordSize,
			"%x is not 3 records", data)
	})
}

// A peer that is not admitted gets no byte, a silent one loses its place, and ranks are served.
func TestStrangers(t *testing.T) {
	must.HaveTime(t)
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	host := NewHost(ctx, fake.NewStore(1))
	listener := must.Get(Listen())(t)
	var open atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		host.Rank().Serve(listener, func(net.Conn) bool { return open.Load() })
	}()
	send := func(text string) net.Conn {
		conn := must.Get(net.Dial("tcp4", listener.Addr().String()))(t)
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, text)
		return conn
	}
	answer := func(conn net.Conn, limit time.Duration) string {
		_ = conn.SetReadDeadline(time.Now().Add(limit))
		text, err := io.ReadAll(conn)
		timeout, is := err.(net.Error)
		check.That(t, !is || !timeout.Timeout(), "no end within %v", limit)
		return string(text)
	}
	const request = "GET /a/b HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
	check.Equal(t, answer(send(request), 20*time.Second), "", "a stranger was told")
	open.Store(true)
	slow := send("GET /a")
	cut := send("PUT /a/b HTTP/1.1\r\nContent-Length: 9\r\n\r\n1234")
	for range 100 {
		send("")
	}
	got := answer(send(request), 20*time.Second)
	check.That(t, strings.HasPrefix(got, "HTTP/1.0 404 "), "a rank was told %q", got)
	got = answer(send(strings.Repeat("x", maxHead)), 20*time.Second)
	check.That(t, strings.HasPrefix(got, "HTTP/1.0 400 "), "a head without an end: %q", got)
	for _, conn := range []net.Conn{slow, cut} {
		check.Equal(t, answer(conn, 4*requestTime), "", "half a request was answered by")
	}
	// A question that waits ends with the port.
	send("PUT /global/0 HTTP/1.1\r\nContent-Length: 136\r\n\r\n" + strings.Repeat("x", recordSize))
	time.Sleep(50 * time.Millisecond)
	waits := send("GET /global/1 HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
	time.Sleep(50 * time.Millisecond)
	listener.Close()
	got = answer(waits, 20*time.Second)
	check.That(t, strings.HasPrefix(got, "HTTP/1.0 500 "), "at the end a rank was told %q", got)
	cancel()
	<-ended
	host.Wait()
}

// No rank learns an address before all have published theirs: one that connects early abandons a
// late one.
func TestGate(t *testing.T) {
	w := newWorld(t, 3, 3)
	put := func(rank int) {
		w.mustAsk(t, rank, "PUT", "/global/"+addressOf(rank), []byte(strings.Repeat("x", 2*recordSize)))
	}
	put(0)
	put(1)
	answered := make(chan int, 1)
	go func() {
		status, _, _ := w.ask(0, "GET", "/global/1", nil)
		answered <- status
	}()
	select {
	case status := <-answered:
		t.Fatalf("answered %d before rank 2 had published", status)
	case <-time.After(100 * time.Millisecond):
	}
	// A request that waits does not block others at the same port.
	other := make(chan int, 1)
	go func() {
		status, _, _ := w.ask(0, "GET", "/other/0", nil)
		other <- status
	}()
	select {
	case status := <-other:
		check.Equal(t, status, 404, "another question")
	case <-time.After(10 * time.Second):
		t.Error("another question is not answered")
	}
	put(2)
	check.Equal(t, <-answered, 200, "answered")
}
