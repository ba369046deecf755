package kv

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/lab"
)

// What a stranger sends, and how the one answer begins.
func strangers(addr string) map[string]struct{ send, want string } {
	get := func(header string) string { return "GET /v1/job HTTP/1.1\r\nHost: " + addr + "\r\n" + header + "\r\n" }
	const refused, malformed = "HTTP/1.1 401 ", "HTTP/1.1 400 "
	return map[string]struct{ send, want string }{
		"no token":              {get(""), refused},
		"empty token":           {get("Authorization: Bearer \r\n"), refused},
		"half a token":          {get("Authorization: Bearer token\r\n"), refused},
		"no bearer":             {get("Authorization: token0\r\n"), refused},
		"basic":                 {get("Authorization: Basic token0\r\n"), refused},
		"token of another case": {get("Authorization: Bearer TOKEN0\r\n"), refused},
		"two tokens":            {get("Authorization: Bearer x\r\nAuthorization: Bearer token0\r\n"), refused},
		"rebound name":          {"GET /v1/job HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer token0\r\n\r\n", refused},
		"page of a browser":     {get("Authorization: Bearer token0\r\nOrigin: http://evil.example\r\n"), refused},
		"no such path":          {"GET /etc/passwd HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", refused},
		"dots":                  {"GET /v1/kv/../../x HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", refused},
		"encoded dots":          {"PUT /v1/kv/%2e%2e%2fx HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: 1\r\n\r\nx", refused},
		"two slashes":           {"GET //v1//job HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", refused},
		"absolute":              {"GET http://evil.example/v1/job HTTP/1.1\r\nHost: " + addr + "\r\nAuthorization: Bearer token0\r\n\r\n", refused},
		"odd method":            {"BREW /v1/job HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", refused},
		"options":               {"OPTIONS * HTTP/1.1\r\nHost: " + addr + "\r\n\r\n", refused},
		"connect":               {"CONNECT example:80 HTTP/1.1\r\nHost: example:80\r\n\r\n", refused},
		"a body of 1 GiB":       {"PUT /v1/kv/a HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: 1073741824\r\n\r\n", refused},
		"chunks without end":    {"PUT /v1/kv/a HTTP/1.1\r\nHost: " + addr + "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n", refused},
		"waits for 100":         {"PUT /v1/kv/a HTTP/1.1\r\nHost: " + addr + "\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", refused},
		"pipelined":             {get("") + get("Authorization: Bearer token0\r\n"), refused},
		"smuggled":              {"PUT /v1/kv/a HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + get("Authorization: Bearer token0\r\n"), refused},
		"two lengths":           {"PUT /v1/kv/a HTTP/1.1\r\nHost: " + addr + "\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", malformed},
		"long header":           {get("X: " + strings.Repeat("x", 64<<10) + "\r\n"), "HTTP/1.1 431 "},
		"TLS":                   {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", malformed},
		"SSH":                   {"SSH-2.0-OpenSSH_9.2\r\n\r\n", malformed},
		"HTTP/2":                {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 "},
		"NULs":                  {strings.Repeat("\x00", 64) + "\n\n", malformed},
	}
}

func TestDoorTellsStrangersNothing(t *testing.T) {
	d, b := openTestDoor(t, 1)
	t.Cleanup(func() {
		b.store.mu.Lock()
		defer b.store.mu.Unlock()
		if len(b.store.values) != 0 {
			t.Errorf("strangers left %v", b.store.values)
		}
	})
	for name, tc := range strangers(d.Addr()) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", d.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			_, _ = io.WriteString(conn, tc.send)
			answer, _ := io.ReadAll(conn) // to the end: one answer, and then it is closed
			line, _, _ := bytes.Cut(answer, []byte("\r\n"))
			if !bytes.HasPrefix(line, []byte(tc.want)) {
				t.Errorf("answered %q", answer)
			}
			if n := bytes.Count(answer, []byte("HTTP/1.1 ")); n != 1 {
				t.Errorf("%d answers: %q", n, answer)
			}
			if _, body, _ := bytes.Cut(answer, []byte("\r\n\r\n")); strings.HasPrefix(string(line), "HTTP/1.1 401") && len(body) > 0 {
				t.Errorf("more than a word: %q", body)
			}
			if bytes.Contains(answer, []byte("a2V5")) {
				t.Errorf("the job's key is in %q", answer)
			}
		})
	}
}

// All refusals are one: what is asked for, how, and what is wrong with the token changes no byte.
func TestDoorRefusesAllAlike(t *testing.T) {
	d, _ := openTestDoor(t, 1)
	seen := map[string]string{}
	for name, tc := range strangers(d.Addr()) {
		if tc.want != "HTTP/1.1 401 " {
			continue
		}
		conn, err := net.Dial("tcp", d.Addr())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(conn, tc.send)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		conn.Close()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		resp.Header.Del("Date")
		seen[fmt.Sprint(resp.Status, resp.Header)] = name
	}
	if len(seen) != 1 {
		t.Errorf("refusals differ: %v", seen)
	}
}

// Bodies that never come end in bound; the door's other guests notice nothing.
func TestDoorCutsOffSlowBodies(t *testing.T) {
	t.Parallel()
	d, _ := openTestDoor(t, 1)
	conn, err := net.Dial("tcp", d.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PUT /v1/kv/a HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer token0\r\nContent-Length: 100\r\n\r\n", d.Addr())
	began := time.Now()
	_ = conn.SetDeadline(began.Add(4 * bodyTime))
	answer, err := io.ReadAll(conn)
	if took := time.Since(began); err != nil || took < bodyTime/2 || !bytes.HasPrefix(answer, []byte("HTTP/1.1 400 ")) {
		t.Errorf("after %v: %q, %v", took, answer, err)
	}
}

func TestDoorBoundsRequests(t *testing.T) {
	d, _ := openTestDoor(t, 1)
	d.inside.Store(int64(MaxRequests(1)))
	if code, _ := ask(t, d, "token0", "GET", "/v1/job", ""); code != http.StatusServiceUnavailable {
		t.Errorf("one request too many: %d", code)
	}
	d.inside.Add(-1)
	if code, _ := ask(t, d, "token0", "GET", "/v1/job", ""); code != 200 {
		t.Errorf("the last one that has room: %d", code)
	}
}

// gateOf is a gate that takes connections for own as own says, and the listener's address.
func gateOf(t *testing.T, own func(net.Conn) bool) (*gate, func() net.Conn) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(l)
	g.own = own
	t.Cleanup(func() { l.Close() })
	return g, func() net.Conn {
		conn, err := net.Dial("tcp4", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		c, err := g.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
}

func closed(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now())
	_, err := c.Read(make([]byte, 1))
	return errors.Is(err, net.ErrClosed)
}

func TestGateKeepsOthersFromPushingOutOwn(t *testing.T) {
	own := true
	g, come := gateOf(t, func(net.Conn) bool { return own })
	mine := come()
	own = false
	var others []net.Conn
	for range otherRoom + 1 {
		others = append(others, come())
	}
	if closed(mine) || !closed(others[0]) || closed(others[1]) {
		t.Errorf("closed: own %v, the first other %v, the second %v", closed(mine), closed(others[0]), closed(others[1]))
	}
	g.leave(others[1].(*guest)) // has shown its token
	for range 2 * otherRoom {
		come()
	}
	if closed(others[1]) {
		t.Error("strangers pushed out one who had shown a token")
	}
	own = true
	for range ownRoom {
		come()
	}
	if !closed(mine) {
		t.Error("the own room has no bound")
	}
	if n := len(g.rooms[true]) + len(g.rooms[false]); n != ownRoom+otherRoom {
		t.Errorf("%d in the rooms", n)
	}
}

func TestPeerUID(t *testing.T) {
	l, err := net.Listen("tcp", "[::]:0") // both families
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, host := range []string{"127.0.0.1", "127.1.2.3", "::1"} {
		conn, err := net.Dial("tcp", net.JoinHostPort(host, port))
		if err != nil {
			t.Log(err) // no IPv6
			continue
		}
		peer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if uid, err := PeerUID(peer); err != nil || uid != uint32(os.Getuid()) {
			t.Errorf("%s: uid %d, %v", host, uid, err)
		}
		if !ownUser(peer) {
			t.Errorf("%s is not taken for our own", host)
		}
		conn.Close()
		if uid, err := PeerUID(peer); !errors.Is(err, ErrPeerUnknown) || ownUser(peer) {
			t.Errorf("%s, closed: uid %d, %v; a closed socket reads as root's", host, uid, err)
		}
		peer.Close()
	}
}

// Another user is known as such, whatever it connects from.
func TestPeerUIDOfAnotherUser(t *testing.T) {
	if os.Getuid() != 0 {
		lab.Skip(t, "needs root to be somebody else")
	}
	const nobody = 65534
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	cmd := helper(t, nobody, "hold", l.Addr().String())
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if uid, err := PeerUID(conn); err != nil || uid != nobody || ownUser(conn) {
		t.Errorf("uid %d, %v; own: %v", uid, err, ownUser(conn))
	}
	cmd.stop()
}

// TestDoorUnderFlood: another user of the host opens connections as fast as it can, some with garbage, some silent. The
// ranks' requests go on, and memory stays.
func TestDoorUnderFlood(t *testing.T) {
	d, _ := openTestDoor(t, 2)
	if code, _ := ask(t, d, "token0", "PUT", "/v1/kv/a", "value"); code != 204 {
		t.Fatal(code)
	}
	before := resident(t)
	uid := os.Getuid()
	if uid == 0 {
		uid = 65534
	}
	cmd := helper(t, uid, "flood", d.Addr())
	const goal = 16 << 20 // S23
	var most int
	for deadline := time.Now().Add(4 * time.Second); time.Now().Before(deadline); {
		// A connection of its own each time: nothing that was proven before helps.
		req, _ := http.NewRequest("GET", "http://"+d.Addr()+"/v1/kv/a", nil)
		req.Header.Set("Authorization", "Bearer token1")
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("a rank is kept out: %v", err)
		}
		if text, _ := io.ReadAll(resp.Body); resp.StatusCode != 200 || string(text) != "value" {
			t.Errorf("%d %q", resp.StatusCode, text)
		}
		resp.Body.Close()
		most = max(most, resident(t)-before)
	}
	floods := cmd.stop()
	t.Logf("%s connections of the other user; %d KiB more memory", floods, most>>10)
	if limit := goal * 3; most > limit && !underRace { // the race detector has its own ideas of memory
		t.Errorf("%d bytes more memory", most)
	}
	if floods == "0" {
		t.Error("nobody flooded the door")
	}
}

// resident is this process's memory in bytes.
func resident(t *testing.T) int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	fmt.Sscan(string(text), &size, &pages)
	return pages * os.Getpagesize()
}

// other is this test binary, run by another user.
type other struct {
	stdin io.Closer
	out   *bytes.Buffer
	cmd   *exec.Cmd
}

func helper(t *testing.T, uid int, role, addr string) *other {
	t.Helper()
	o := &other{out: &bytes.Buffer{}, cmd: exec.Command("/proc/self/exe", "-test.run=^TestStranger$")}
	o.cmd.Env = append(os.Environ(), "KV_STRANGER="+role, "KV_DOOR="+addr)
	o.cmd.Stdout = o.out
	if uid != os.Getuid() {
		o.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	var err error
	if o.stdin, err = o.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err = o.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.stop() })
	return o
}

// stop ends it and returns the first line that it printed.
func (o *other) stop() string {
	o.stdin.Close()
	if o.cmd.ProcessState == nil {
		_ = o.cmd.Wait()
	}
	line, _, _ := strings.Cut(o.out.String(), "\n")
	return line
}

// TestStranger is what helper runs: no test of its own.
func TestStranger(t *testing.T) {
	addr := os.Getenv("KV_DOOR")
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch os.Getenv("KV_STRANGER") {
	case "hold":
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	case "flood":
		var mu sync.Mutex
		n := 0
		for worker := range 8 {
			wg.Go(func() {
				var open []net.Conn
				for ctx.Err() == nil {
					conn, err := net.Dial("tcp", addr)
					if err != nil {
						time.Sleep(time.Millisecond)
						continue
					}
					if worker%2 == 0 {
						_, _ = conn.Write(bytes.Repeat([]byte{byte(worker), 'x', '\r'}, 4096))
					} else {
						_, _ = io.WriteString(conn, "GET /v1/job HT") // and never more
					}
					if open = append(open, conn); len(open) > 100 {
						open[0].Close()
						open = open[1:]
					}
					mu.Lock()
					n++
					mu.Unlock()
				}
				for _, conn := range open {
					conn.Close()
				}
			})
		}
		defer func() { fmt.Println(n) }()
	default:
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	wg.Wait()
}

func TestStoreIsBounded(t *testing.T) {
	s := NewStore()
	s.limit = 10 * (entryCost + 4)
	for i := range 10 {
		if err := s.Put(fmt.Sprint("k", i), []byte("v2")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Put("one more", nil); err == nil || !strings.Contains(err.Error(), "full (10 keys") {
		t.Errorf("keys without values cost nothing: %v", err)
	}
	if err := s.Put("k1", []byte("v3")); err != nil {
		t.Errorf("over an old value: %v", err)
	}
}

// Whoever asks for keys that never come leaves nothing behind.
func TestStoreForgetsWaits(t *testing.T) {
	s := NewStore()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() { s.Get(ctx, fmt.Sprint("never", i%10)) })
	}
	for waiting := 0; waiting < 10; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		waiting = len(s.waits)
		s.mu.Unlock()
	}
	cancel()
	wg.Wait()
	if len(s.waits) != 0 {
		t.Errorf("%d waits are kept", len(s.waits))
	}
}

func TestGatherBoundsValues(t *testing.T) {
	g := NewGather(2)
	if _, err := g.Add("a", map[int][]byte{0: make([]byte, MaxFence+1)}); err == nil {
		t.Error("no bound on a value")
	}
	if _, err := g.Add(strings.Repeat("n", MaxKey+1), nil); err == nil {
		t.Error("no bound on a name")
	}
	value := make([]byte, MaxFence)
	var err error
	n := 0
	for ; err == nil && n < maxOpen; n++ {
		_, err = g.Add(fmt.Sprint(n), map[int][]byte{0: value, 1: nil}) // complete: forgotten
	}
	if err != nil || g.bytes != 0 {
		t.Fatalf("complete fences still count: %d bytes, %v", g.bytes, err)
	}
	big := map[int][]byte{}
	for m := range 40 {
		big[m] = value
	}
	g = NewGather(41)
	for n = 0; err == nil && n < maxOpen; n++ {
		_, err = g.Add(fmt.Sprint(n), big)
	}
	if err == nil || g.bytes > maxGather {
		t.Errorf("%d bytes in open fences, %v", g.bytes, err)
	}
}

func FuzzParseDiag(f *testing.F) {
	f.Add(diagRequest(netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")))
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		if uid, err := parseDiag(b); err != nil && uid != 0 {
			t.Errorf("uid %d with %v", uid, err)
		}
	})
}
