package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// plainConn is one end of a socket pair, which has no addresses of TCP.
type plainConn struct{ net.Conn }

func (plainConn) RemoteAddr() net.Addr { return proxyAddr{} }

// connPair returns two connected ends.
func connPair(t testing.TB) (client, server net.Conn) {
	t.Helper()
	fds := must.Get(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	var ends []net.Conn
	for _, fd := range fds {
		file := os.NewFile(uintptr(fd), "pair")
		conn, err := net.FileConn(file)
		file.Close()
		must.OK(t, err)
		ends = append(ends, conn)
	}
	return plainConn{ends[0]}, ends[1]
}

// hostile is how a test's client sees its server.
type hostile struct {
	settings settings
	key      xssh.Signer
	bound    time.Duration // of each phase
}

func newHostile(t testing.TB, bound time.Duration) *hostile {
	key := newSigner(t)
	known := filepath.Join(t.TempDir(), "known_hosts")
	writeFile(t, known, "h "+publicLine(key))
	return &hostile{settings{
		alias:            "h",
		hostname:         "h",
		port:             22,
		user:             "u",
		userKnownHosts:   []string{known},
		connectTimeout:   bound,
		handshakeTimeout: bound,
	}, key, bound}
}

// run connects to what serve does with the other end, and runs a command there. serve may return
// before the client has ended.
func (h *hostile) run(t testing.TB, stdin io.Reader, serve func(net.Conn)) (out string, err error) {
	t.Helper()
	ours, theirs := connPair(t)
	var serving sync.WaitGroup
	serving.Go(func() { serve(theirs) })
	defer serving.Wait()
	defer theirs.Close()
	w := newWire(ours, nil)
	defer w.Close()
	c, err := handshake(t.Context(), h.settings, w, nil)
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.sessionTimeout = h.bound
	c.closeTimeout = h.bound
	ctx, cancel := context.WithTimeout(t.Context(), h.bound)
	defer cancel()
	var stdout bytes.Buffer
	err = c.Run(ctx, []string{"x"}, stdin, &stdout, nil)
	return stdout.String(), err
}

// raw is run with a rawServer that begin has made hostile.
func (h *hostile) raw(t testing.TB, stdin io.Reader, begin func(*rawServer)) (string, error) {
	return h.run(t, stdin, func(conn net.Conn) {
		r := &rawServer{conn: conn, key: h.key, at: map[string]func(){}}
		if begin != nil {
			begin(r)
		}
		r.serve()
	})
}

func repeat(n int, f func()) func() {
	return func() {
		for range n {
			f()
		}
	}
}

// hostileCase is a server's misbehaviour. want is in the client's error, or "data": the command
// comes to its end all the same; "": either.
type hostileCase struct {
	name, want string
	stdin      io.Reader
	begin      func(r *rawServer)
}

// hostileCases are the hostile servers of row S6 of the threat model.
func hostileCases() []hostileCase {
	all := []hostileCase{
		{"nothing", "data", nil, func(*rawServer) {}},
		{"16k-bit RSA host key", "key exchange: crypto/rsa: ", nil, func(r *rawServer) {
			n := append([]byte{0}, bytes.Repeat([]byte{0xc5}, 2048)...)
			r.hostKey = bytes.Join([][]byte{text("ssh-rsa"), text([]byte{1, 0, 1}), text(n)}, nil)
		}},
		{"junk as host key", "key exchange", nil, func(r *rawServer) { r.hostKey = text("\x1b[2J") }},
		{"4 GiB packet before the keys", "key exchange", nil, func(r *rawServer) {
			r.change = func(p []byte) [][]byte { r.conn.Write(word(0xffffffff)); return [][]byte{p} }
		}},
		{"endless banners while authenticating", "authentication: no answer in time", nil, func(r *rawServer) {
			r.at["auth"] = func() {
				for r.send(msgAuthBanner, text(strings.Repeat("\x1b[2J", 8000)), text("")) == nil {
				}
			}
		}},
	}
	return append(all, hostileSessions()...)
}

// hostileSessions are the cases after the handshake.
func hostileSessions() []hostileCase {
	var all []hostileCase
	add := func(name, want, point string, what func(r *rawServer) func()) {
		all = append(all, hostileCase{name, want, nil, func(r *rawServer) { r.at[point] = what(r) }})
	}
	add("4 GiB packet", "connection lost", "open", func(r *rawServer) func() {
		return func() { r.conn.Write(bytes.Repeat([]byte{0xff}, 1000)) }
	})
	add("answers to no question", "data", "exec", func(r *rawServer) func() {
		return repeat(100, func() { r.send(msgGlobalSuccess); r.send(msgGlobalSuccess+1, []byte("junk")) })
	})
	add("junk global requests", "data", "exec", func(r *rawServer) func() {
		return repeat(20, func() { r.send(msgGlobalRequest, text("\x00\xff\x1b[2J"), []byte{1}, make([]byte, 30000)) })
	})
	add("keepalive flood", "data", "exec", func(r *rawServer) func() {
		return func() {
			go io.Copy(io.Discard, r.conn) // until the test's end; nothing more is read
			repeat(3000, func() { r.send(msgGlobalRequest, text("keepalive@openssh.com"), []byte{1}) })()
		}
	})
	add("keepalive flood, replies unread", "deadline exceeded", "exec", func(r *rawServer) func() {
		return func() {
			for r.send(msgGlobalRequest, text("keepalive@openssh.com"), []byte{1}) == nil {
			}
		}
	})
	add("channels towards us", "data", "exec", func(r *rawServer) func() {
		return func() {
			for i, kind := range []string{"forwarded-tcpip", "x11", "auth-agent@openssh.com", "session", "\x1b"} {
				r.send(msgChannelOpen, text(kind), word(uint32(i+5)), word(1<<30), word(1<<15), make([]byte, 40))
			}
		}
	})
	add("data for a channel that is not there", "connection lost: ", "exec", func(r *rawServer) func() {
		return func() { r.send(msgChannelData, word(77), text("x")) }
	})
	add("more data than the window", "", "exec", func(r *rawServer) func() {
		return func() {
			r.send(msgChannelSuccess, word(r.channel))
			for range 200 {
				r.send(msgChannelData, word(r.channel), text(make([]byte, 32<<10)))
			}
		}
	})
	add("a window beyond all", "connection lost: ", "exec", func(r *rawServer) func() {
		return repeat(3, func() { r.send(msgWindowAdjust, word(r.channel), word(0xffffffff)) })
	})
	add("two confirmations", "", "exec", func(r *rawServer) func() {
		return func() { r.send(msgChannelConfirm, word(r.channel), word(9), word(0xffffffff), word(0xffffffff)) }
	})
	add("no window, tiny packets", "", "open", func(r *rawServer) func() {
		return func() { r.send(msgChannelConfirm, word(0), word(0), word(0), word(0)) }
	})
	add("truncated exit-status", "without a status", "exec", func(r *rawServer) func() {
		return func() {
			r.mute = true
			r.send(msgChannelSuccess, word(r.channel))
			r.send(msgChannelRequest, word(r.channel), text("exit-status"), []byte{0, 0})
			r.send(msgChannelClose, word(r.channel))
		}
	})
	add("an empty packet", "", "exec", func(r *rawServer) func() { return func() { r.write(nil) } })
	add("messages that nobody knows", "connection lost: ", "exec", func(r *rawServer) func() {
		return func() {
			for n := byte(192); n != 0; n++ {
				r.send(n, []byte("junk"))
			}
		}
	})
	add("key exchange begun again and again", "", "exec", func(r *rawServer) func() {
		return repeat(50, func() { r.send(msgKexInit, r.algorithms()) })
	})
	return all
}

// TestHostileServer holds S6: whatever a server does, no panic, no hang, bounded memory, and an
// error that names the host and is fit for a terminal.
func TestHostileServer(t *testing.T) {
	must.HaveTime(t)
	for _, tc := range hostileCases() {
		t.Run(tc.name, func(t *testing.T) {
			if tc.name != "messages that nobody knows" {
				noLeaks(t) // the library itself can be stuck then: Client.end
			}
			h := newHostile(t, 2*time.Second)
			before := heap()
			began := time.Now()
			out, err := h.raw(t, tc.stdin, tc.begin)
			took := time.Since(began)
			check.That(t, took <= 12*time.Second, "took %v", took)
			grown := int64(heap()) - int64(before) // it may shrink
			check.That(t, grown <= 128<<20, "took %d MiB of memory", grown>>20)
			t.Logf("%d bytes, %v", len(out), err)
			judgeHostile(t, out, err, tc.want)
		})
	}
}

func judgeHostile(t *testing.T, out string, err error, want string) {
	t.Helper()
	if ok := err == nil && strings.HasSuffix(out, "data"); ok && want == "" || want == "data" {
		check.That(t, ok, "%d bytes, %v", len(out), err)
		return
	}
	must.That(t, err != nil, "no error, and the command said %d bytes", len(out))
	if !strings.HasPrefix(err.Error(), "h: ") || strings.ContainsFunc(err.Error(), func(r rune) bool {
		return r < ' ' || r == 0x7f
	}) {
		t.Errorf("%q", err)
	}
	check.That(t, want == "" || strings.Contains(err.Error(), want), "%q does not say %q", err, want)
}

// heap is the memory that the heap has ever had from the system.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys
}

// unclosed returns a client of a server that lets every command run, or at "open" does not answer,
// and closes no session. over is called when the client has closed one.
func (h *hostile) unclosed(t *testing.T, at string, over func(r *rawServer)) (client *Client, started <-chan bool) {
	t.Helper()
	ours, theirs := connPair(t)
	runs := make(chan bool, 1) // the client may have failed
	r := &rawServer{conn: theirs, key: h.key, at: map[string]func(){}}
	r.at[at] = func() {
		r.mute = true
		if at == "exec" {
			r.send(msgChannelSuccess, word(r.channel))
		}
		runs <- true
	}
	r.heard = func(p []byte) {
		if p[0] == msgChannelClose {
			over(r)
		}
	}
	var serving sync.WaitGroup
	serving.Go(func() { r.serve() })
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { theirs.Close() })
	c := must.Get(handshake(t.Context(), h.settings, newWire(ours, nil), nil))(t)
	t.Cleanup(func() { c.Close() })
	return c, runs
}

// stop runs a command, and stops waiting for it when it has started.
func stop(t *testing.T, c *Client, started <-chan bool) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		select {
		case <-started:
			cancel()
		case <-ctx.Done():
		}
	}()
	return c.Run(ctx, []string{"x"}, nil, nil, nil)
}

// A server that goes on sending after a session's end, in the pieces that take the most memory, and
// does not close it, fills none: neither at once nor behind an end of file.
func TestSessionsThatAreOverTakeNoMemory(t *testing.T) {
	for name, first := range map[string]byte{"data": msgWindowAdjust, "data behind an end": msgChannelEOF} {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			const pieces = 100_000 // of 48 bytes in memory
			flooded := make(chan bool)
			c, started := newHostile(t, time.Minute).unclosed(t, "exec", func(r *rawServer) {
				r.send(first, word(r.channel), word(0))
				for range pieces {
					r.send(msgChannelData, word(r.channel), text("x"))
				}
				flooded <- true
			})
			before := inUse()
			for range 3 {
				check.Error(stop(t, c, started)).Is(t, context.Canceled, "a command that is not awaited")
				<-flooded
			}
			must.Until(t, "memory to be free again", func() bool { return inUse() < before+4<<20 })
		})
	}
}

// inUse is the memory of what can be reached.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A server that closes no session, or opens none, loses the connection before they are many.
func TestSessionsThatStayAreBounded(t *testing.T) {
	for _, at := range []string{"open", "exec"} {
		t.Run(at, func(t *testing.T) {
			noLeaks(t)
			c, started := newHostile(t, time.Minute).unclosed(t, at, func(*rawServer) {})
			err := error(context.Canceled)
			for n := 0; errors.Is(err, context.Canceled) && n < 10*maxLeft; n++ {
				err = stop(t, c, started)
			}
			check.Error(err).Is(t, errLeft, "many sessions stay")
		})
	}
}

// TestHostileBanner sends endless text where a banner should be.
func TestHostileBanner(t *testing.T) {
	for name, chunk := range map[string]string{"lines": strings.Repeat("x", 70) + "\n",
		"one line": strings.Repeat("x", 4096), "binary": "\x00\xff\n"} {
		noLeaks(t)
		before := heap()
		began := time.Now()
		_, err := newHostile(t, 20*time.Second).run(t, nil, func(conn net.Conn) {
			for n := 0; n >= 0; {
				if _, err := io.WriteString(conn, strings.Repeat(chunk, 100)); err != nil {
					return
				}
			}
		})
		var handshake *HandshakeError
		check.That(t, errors.As(err, &handshake) && errors.Is(err, errNoBanner) && !handshake.Temporary(),
			"%s: %v", name, err)
		if took := time.Since(began); took > 10*time.Second || heap() > before+64<<20 {
			t.Errorf("%s: took %v and %d MiB", name, took, (heap()-before)>>20)
		}
	}
}

// D6: text before the banner, in lines of any number and length.
func TestD6TextBeforeBanner(t *testing.T) {
	for _, lines := range []int{1, 50, 1000} {
		for _, length := range []int{10, 254, 255, 256, 300} {
			h := newHostile(t, 20*time.Second)
			out, err := h.run(t, nil, func(conn net.Conn) {
				io.WriteString(conn, strings.Repeat(strings.Repeat("x", length)+"\r\n", lines))
				(&rawServer{conn: conn, key: h.key}).serve()
			})
			check.That(t, err == nil && out == "data", "%d lines of %d bytes: %q, %v", lines, length, out, err)
		}
	}
}

// Z14: the bytes of a server that is not one, and the deviations of one that knows the protocol.
// The bounds of the phases hold, and errors are fit for a terminal.
func FuzzHostileServer(f *testing.F) {
	f.Add([]byte("\x00SSH-2.0-x\r\n\x00\x00\x00\x0c\x0a\x14"))
	f.Add([]byte("\x00Exceeded MaxStartups\r\n"))
	for n := byte(0); n < 12; n++ {
		for op := byte(0); op < 5; op++ {
			f.Add([]byte{1, n, op, 5, n, op, 1})
		}
	}
	h := newHostile(f, 300*time.Millisecond)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 1 || len(data) > 4096 {
			return
		}
		began := time.Now()
		out, err := h.run(t, nil, func(conn net.Conn) {
			// A client that waits is hung up on, so that fuzzing gets on.
			conn.SetDeadline(time.Now().Add(100 * time.Millisecond))
			defer conn.Close()
			if data[0]%2 == 0 {
				conn.Write(data[1:])
				return
			}
			r := &rawServer{conn: conn, key: h.key}
			r.change = deviation(data[1:])
			r.serve()
		})
		took := time.Since(began)
		check.That(t, took <= 5*time.Second, "took %v: %v", took, err)
		if err != nil && (!strings.HasPrefix(err.Error(), "h: ") ||
			strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f })) {
			t.Errorf("%q", err)
		}
		check.That(t, len(out) <= 1<<20, "%d bytes of output", len(out))
	})
}

// deviation reads threes of bytes: the number of a packet, what is done with it, and an argument.
func deviation(script []byte) func([]byte) [][]byte {
	sent := byte(0)
	return func(p []byte) [][]byte {
		n := sent
		sent++
		out := [][]byte{p}
		for s := script; len(s) >= 3; s = s[3:] {
			if s[0] != n {
				continue
			}
			switch i := int(s[2]) % max(len(p), 1); s[1] % 5 {
			case 0:
				p = bytes.Clone(p)
				if len(p) > 0 {
					p[i] ^= 1 + s[2]
				}
				out[0] = p
			case 1:
				out[0] = p[:i]
			case 2:
				out = append(out, p)
			case 3:
				out[0] = append(bytes.Clone(p), s...)
			case 4:
				return nil
			}
		}
		return out
	}
}

// A server that leaves a change of keys open, for which writers wait, holds up neither a command
// nor the end of the connection.
func TestServerThatLeavesAChangeOfKeysOpen(t *testing.T) {
	h := newHostile(t, time.Minute)
	h.settings.rekey = 64 << 10 // ChaCha20 changes keys after 1 GiB
	ours, theirs := connPair(t)
	r := &rawServer{conn: theirs, key: h.key, at: map[string]func(){}}
	r.at["exec"] = func() {
		r.mute = true
		r.send(msgChannelSuccess, word(r.channel))
		for range 4 {
			r.send(msgGlobalRequest, text("x"), []byte{0}, make([]byte, 30_000))
		}
		for p, err := r.read(); err == nil && p[0] != msgKexInit; p, err = r.read() {
		}
		for range 200 { // the library keeps 64 answers, and then 33 requests in all before it reads no more
			r.send(msgChannelRequest, word(r.channel), text("x"), []byte{1})
		}
	}
	var serving sync.WaitGroup
	serving.Go(func() { r.serve() })
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { theirs.Close() })
	c := must.Get(handshake(t.Context(), h.settings, newWire(ours, nil), nil))(t)
	ended := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Run(ctx, []string{"x"}, nil, nil, nil)
		ended <- errors.Join(err, c.Close())
	}()
	select {
	case err := <-ended:
		check.Error(err).Any(t, "a command came to its end")
	case <-time.After(hangLimit):
		t.Fatal("the end of the connection waits for the server")
	}
}

// A jump host that leaves a change of keys open holds up neither the handshake by way of it nor the
// end of the connection.
func TestJumpHostThatLeavesAChangeOfKeysOpen(t *testing.T) {
	jump := func(t *testing.T) *wire {
		h := newHostile(t, time.Minute)
		h.settings.rekey = 64 << 10 // ChaCha20 changes keys after 1 GiB
		ours, theirs := connPair(t)
		r := &rawServer{conn: theirs, key: h.key, at: map[string]func(){}}
		channel := word(0) // the client's first one
		r.at["open"] = func() {
			r.mute = true
			r.send(msgChannelConfirm, channel, word(0), word(1<<20), word(1<<15))
			for range 4 {
				r.send(msgGlobalRequest, text("x"), []byte{0}, make([]byte, 30_000))
			}
			for p, err := r.read(); err == nil && p[0] != msgKexInit; p, err = r.read() {
			}
			for range 200 {
				r.send(msgChannelRequest, channel, text("x"), []byte{1})
			}
		}
		var serving sync.WaitGroup
		serving.Go(func() { r.serve() })
		t.Cleanup(serving.Wait)
		t.Cleanup(func() { theirs.Close() })
		via := must.Get(handshake(t.Context(), h.settings, newWire(ours, nil), nil))(t)
		conn := must.Get(via.conn.DialContext(t.Context(), "tcp", "127.0.0.1:22"))(t)
		return newWire(conn, via)
	}
	ends := func(t *testing.T, what string, f func()) {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			f()
		}()
		select {
		case <-ended:
		case <-time.After(hangLimit):
			t.Fatal(what + " waits for the jump host")
		}
	}
	t.Run("handshake", func(t *testing.T) {
		w := jump(t)
		h := newHostile(t, time.Second)
		ends(t, "the handshake", func() {
			_, err := handshake(t.Context(), h.settings, w, nil)
			check.Error(err).Says(t, errTimeout.Error(), "a jump host that is stuck")
		})
	})
	t.Run("end", func(t *testing.T) {
		w := jump(t)
		time.Sleep(time.Second) // until the library waits
		ends(t, "the end", func() {
			w.Close()
			w.via.Close()
		})
	})
}
