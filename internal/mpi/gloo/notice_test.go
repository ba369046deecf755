package gloo

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// What Python 3.11 makes of ({"lo": [("127.0.0.1", 40000)]}, bytes(range(32))) and the like, with
// protocol 4 and 5.
const (
	oneAddress = "80049542000000000000007d948c026c6f945d948c093132372e302e302e31944d409c869461734320000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f9486942e"
	three      = "8005956e000000000000007d94288c0465746830945d94288c0831302e302e302e31944d409c86948c0831302e302e302e32944d409c8694658c0465746831945d948c0831302e312e302e31944bc8869461754320000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f9486942e"
	sameTwice  = "8005954b000000000000007d948c026c6f945d94288c093132372e302e302e31944a0f27000086946803" +
		"4b05869465734320000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f9486942e"
)

func encoded(t testing.TB, hexadecimal string) []byte {
	t.Helper()
	raw := must.Get(hex.DecodeString(hexadecimal))(t)
	return []byte(base64.StdEncoding.EncodeToString(raw))
}

func TestParseWorker(t *testing.T) {
	key := make([]byte, 32)
	for i := range key {
		key[i] = byte(i)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"one address":           {oneAddress, "[127.0.0.1:40000]"},
		"three":                 {three, "[10.0.0.1:40000 10.0.0.2:40000 10.1.0.1:200]"},
		"an address it repeats": {sameTwice, "[127.0.0.1:9999 127.0.0.1:5]"},
	} {
		w, err := parseWorker(encoded(t, tc.text))
		check.That(t, err == nil && fmt.Sprint(w.addrs) == tc.want && bytes.Equal(w.key, key),
			"%s: %+v, %v", name, w, err)
	}
	for name, text := range map[string]string{
		"nothing":              "",
		"no end":               oneAddress[:len(oneAddress)-2],
		"more after the end":   oneAddress + "2e",
		"another protocol":     "8002" + oneAddress[4:],
		"a class":              "80048c026f738c0673797374656d932e", // os.system
		"a call":               "80044e85522e",
		"a global":             "800463" + hex.EncodeToString([]byte("os\nsystem\n")) + "2e",
		"a number":             "80044b012e",
		"no key":               "80047d4b0186 2e",
		"an empty key":         "80047d4300862e",
		"a list of marks":      "80045d2828652e",
		"append to nothing":    "80044b01612e",
		"a name that is cut":   "80048cff616263862e",
		"a negative length":    "800442ffffffff2e",
		"a memo out of reach":  "800468052e",
		"addresses of numbers": "80047d8c026c6f5d4b01617343016b862e",
		"port 0": "80047d8c026c6f5d8c09" + hex.EncodeToString([]byte("127.0.0.1")) + "4b00866173" +
			"43016b862e",
		"a name, no address": "80047d8c026c6f5d8c09" + hex.EncodeToString([]byte("localhost")) + "4b05866173" +
			"43016b862e",
		"a port beyond 65535": "80047d8c026c6f5d8c09" + hex.EncodeToString([]byte("127.0.0.1")) + "4a00000100866173" +
			"43016b862e",
		"too many values":       "8004" + strings.Repeat("5d", maxItems+2) + "2e",
		"a name without a list": "80047d288c026c6f7543016b862e",
	} {
		w, err := parseWorker(encoded(t, strings.ReplaceAll(text, " ", "")))
		check.That(t, errors.Is(err, errPickle), "%s: %+v, %v", name, w, err)
	}
	for _, text := range []string{"!", strings.Repeat("A", maxPickle+4)} {
		_, err := parseWorker([]byte(text))
		check.That(t, errors.Is(err, errPickle), "%.10q: %v", text, err)
	}
}

func FuzzWorker(f *testing.F) {
	for _, text := range []string{oneAddress, three, sameTwice, "80045d2828652e"} {
		raw, _ := hex.DecodeString(text)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, err := parseWorker([]byte(base64.StdEncoding.EncodeToString(raw)))
		switch {
		case err != nil && !errors.Is(err, errPickle):
			t.Errorf("%x: %v", raw, err)
		case err == nil && (len(w.key) == 0 || len(w.key) > maxKeySize || len(w.addrs) > maxItems):
			t.Errorf("%x: a key of %d bytes, %d addresses", raw, len(w.key), len(w.addrs))
		case err == nil && slices.ContainsFunc(w.addrs, func(a netip.AddrPort) bool {
			return !a.IsValid() || a.Port() == 0
		}):
			t.Errorf("%x: %v", raw, w.addrs)
		}
	})
}

func FuzzFrame(f *testing.F) {
	key := []byte("key")
	f.Add(seal(key, []byte("body")))
	f.Add(seal(nil, []byte("body")))
	f.Add(append(make([]byte, 32), 0xff, 0xff, 0xff, 0x7f))
	f.Fuzz(func(t *testing.T, frame []byte) {
		body, err := unseal(key, bytes.NewReader(frame))
		check.That(t, err != nil || bytes.HasPrefix(frame, seal(key, body)), "%x passed as %x", frame, body)
	})
}

// An answer that claims to be long is not waited for.
func TestLongFrame(t *testing.T) {
	head := binary.LittleEndian.AppendUint32(make([]byte, 32), maxFrame+1)
	check.Error(unseal(nil, bytes.NewReader(append(head, make([]byte, maxFrame+1)...)))).Is(t, errFrame)
	_, err := unseal([]byte("key"), bytes.NewReader(seal([]byte("key"), make([]byte, maxFrame))))
	check.OK(t, err)
}

// Of what a worker says, the agent calls nobody but the worker's own host.
func TestReachable(t *testing.T) {
	e := &Elastic{local: func(a netip.Addr) bool { return a == netip.MustParseAddr("10.0.0.1") }}
	var addrs []netip.AddrPort
	for _, a := range []string{"192.0.2.1:9", "10.0.0.1:9", "10.0.0.2:9", "[::1]:9"} {
		addrs = append(addrs, netip.MustParseAddrPort(a))
	}
	check.Equal(t, fmt.Sprint(e.reachable(addrs)), "[10.0.0.1:9 [::1]:9 127.0.0.1:9]")
}

// listener is a Horovod worker's service for notices.
type listener struct {
	key  []byte
	port int

	mu     sync.Mutex
	stamps []float64
	bad    []string
	mute   bool // say nothing
}

func newListener(t *testing.T, key string) *listener {
	t.Helper()
	l := must.Get(net.Listen("tcp4", "127.0.0.1:0"))(t)
	t.Cleanup(func() { l.Close() })
	s := &listener{key: []byte(key), port: l.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			s.take(conn)
			conn.Close()
		}
	}()
	return s
}

func (s *listener) take(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	body, err := unseal(s.key, conn)
	s.mu.Lock()
	defer s.mu.Unlock()
	const before = "\x80\x02chorovod.runner.elastic.worker\nHostsUpdatedRequest\n)\x81}(U\x09timestampG"
	const after = "U\x03resK\x03ub."
	rest, is := bytes.CutPrefix(body, []byte(before))
	if err != nil || !is || len(rest) != 8+len(after) || string(rest[8:]) != after {
		s.bad = append(s.bad, fmt.Sprintf("%q %v", body, err))
		return
	}
	s.stamps = append(s.stamps, math.Float64frombits(binary.BigEndian.Uint64(rest)))
	if !s.mute {
		_, _ = conn.Write(seal(s.key, []byte("ack")))
	}
}

func (s *listener) heard() []float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.stamps)
}

// registration is what the worker publishes of itself.
func (s *listener) registration() []byte {
	b := []byte("\x80\x04}\x8c\x02lo]\x8c\x09127.0.0.1M")
	b = binary.LittleEndian.AppendUint16(b, uint16(s.port))
	b = append(b, "\x86asC"...)
	b = append(append(b, byte(len(s.key))), s.key...)
	return []byte(base64.StdEncoding.EncodeToString(append(b, 0x86, '.')))
}

// Rank 0 is told to leave an epoch until it has, whenever it says where; others are not told.
func TestNotices(t *testing.T) {
	must.HaveTime(t)
	t.Parallel()
	s := fake.NewStore(1)
	root := newMember(t, s, 1)
	other := newMember(t, s, 1)
	w := oneHost(root, other)
	register := func(rank int, body []byte) { w.mustAsk(t, rank, "PUT", "/worker_addresses/f0:0", body) }
	root.letIn(1, 0, 2)
	other.letIn(1, 1, 2)
	must.OK(t, w.rendezvous(1, atOnce))
	ears := newListener(t, "root's")
	others := newListener(t, "other's")
	register(1, others.registration())
	register(0, []byte("garbage"))
	register(0, []byte("garbage"))
	for _, m := range []*member{root, other} {
		m.change(func() { close(m.interrupted) })
	}
	register(0, ears.registration())
	must.Until(t, "a second notice", func() bool { return len(ears.heard()) >= 2 })
	again := newListener(t, "root's")
	again.mu.Lock()
	again.mute = true
	again.mu.Unlock()
	register(0, again.registration())
	must.Until(t, "notices elsewhere", func() bool { return len(again.heard()) >= 2 })

	// It leaves, and hears no more of this epoch, but of the next.
	answer := reborn(w, 0)
	must.Until(t, "the question for the next epoch", func() bool { parks, _ := root.heard(); return len(parks) == 2 })
	root.letIn(2, 0, 1)
	check.Equal(t, <-answer, "200 0,1,0,1,0,1 <nil>", "the next epoch")
	n := len(again.heard())
	time.Sleep(noticeEvery + noticeEvery/2)
	got := again.heard()
	check.That(t, len(got) == n, "%d notices after it had left", len(got)-n)
	root.change(func() { close(root.interrupted) })
	must.Until(t, "a notice of the next epoch", func() bool { return len(again.heard()) > n })
	stamps := append(ears.heard(), again.heard()...)
	check.That(t, slices.IsSorted(stamps) && len(slices.Compact(slices.Clone(stamps))) == len(stamps) &&
		stamps[0] > 1 && stamps[len(stamps)-1] > 2, "the notices' times are %v", stamps)
	check.That(t, len(others.heard()) == 0 && len(ears.bad) == 0 && len(again.bad) == 0 && len(others.bad) == 0,
		"%d notices to another rank; %q %q", len(others.heard()), ears.bad, again.bad)
	check.That(t, len(root.notes) == 1 && strings.Contains(root.notes[0], "pickle"), "the user is told %q", root.notes)
}
