package ring_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// middleman stands between the ranks and one of them, who told of its address instead of
// its own. It hands on what comes, as touch leaves it.
type middleman struct {
	tb     testing.TB
	own    *net.TCPListener
	touch  func(conn int, dialer bool, offset int, b []byte) // in the order of offsets; for each direction by itself
	single bool                                              // each byte is handed on by itself
	// nothing is handed on before it is closed, if there is one
	gate    chan struct{}
	found   chan netip.AddrPort
	serving sync.WaitGroup

	mu    sync.Mutex
	conns []net.Conn
	heard bytes.Buffer // of all connections and directions
}

func newMiddleman(tb testing.TB) *middleman {
	l := must.Get(net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))(tb)
	m := &middleman{
		tb:    tb,
		own:   l,
		found: make(chan netip.AddrPort, 1),
		touch: func(int, bool, int, []byte) {},
	}
	tb.Cleanup(m.end)
	return m
}

// between makes d's ranks reach rank through m.
func (m *middleman) between(d *ringtest.Job, rank int) {
	d.OnPost(func(name string, from int, value []byte) []byte {
		var c card
		if !isAddr(name) || from != rank || json.Unmarshal(value, &c) != nil || len(c.Addrs) == 0 {
			return value
		}
		m.found <- c.Addrs[0]
		m.serving.Add(1)
		go m.serve(c.Addrs[0])
		c.Addrs = []netip.AddrPort{m.own.Addr().(*net.TCPAddr).AddrPort()}
		text, err := json.Marshal(c)
		check.OK(m.tb, err)
		return text
	})
}

func (m *middleman) serve(to netip.AddrPort) {
	defer m.serving.Done()
	if m.gate != nil {
		<-m.gate
	}
	for i := 0; ; i++ {
		from, err := m.own.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", to.String())
		if err != nil {
			from.Close()
			continue
		}
		m.mu.Lock()
		m.conns = append(m.conns, from, there)
		m.mu.Unlock()
		m.serving.Add(2)
		go m.carry(i, true, there, from)
		go m.carry(i, false, from, there)
	}
}

func (m *middleman) carry(conn int, dialer bool, to, from net.Conn) {
	defer m.serving.Done()
	defer to.Close()
	b := make([]byte, 64<<10)
	offset := 0
	for {
		n, err := from.Read(b)
		m.mu.Lock()
		m.heard.Write(b[:n])
		m.mu.Unlock()
		m.touch(conn, dialer, offset, b[:n])
		offset += n
		if m.pass(to, b[:n]) != nil || err != nil {
			return
		}
	}
}

func (m *middleman) pass(to net.Conn, b []byte) error {
	for len(b) > 0 {
		size := len(b)
		if m.single {
			size = 1
		}
		if _, err := to.Write(b[:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// end may come more than once.
func (m *middleman) end() {
	m.own.Close()
	m.mu.Lock()
	for _, c := range m.conns {
		c.Close()
	}
	m.mu.Unlock()
	m.serving.Wait()
}

// canary is a number whose bytes occur nowhere else.
const canary = float32(-7.4505806e-09)

func pairOf(more ...string) layout {
	l := over("tcp", 2, more...)
	l.streams = 2
	return l
}

// S3: who listens between two ranks sees what they send each other, unless they encrypt it.
func TestListenerSeesNoSecret(t *testing.T) {
	for _, tt := range []struct {
		more  string
		clear bool
	}{{"GORUN_ENCRYPT=0", true}, {"RING_CHECKSUM=1", true}, {"GORUN_ENCRYPT=1", false}} {
		l := pairOf(tt.more)
		d := l.job(t)
		m := newMiddleman(t)
		m.between(d, 1)
		comms := l.join(t, d)
		vector := make([]float32, 200_000)
		for i := range vector {
			vector[i] = canary
		}
		ringtest.All(t, 2, func(rank int) error {
			return ring.Broadcast(ctx, comms[rank], vector[rank*100_000:][:100_000], 0)
		})
		closeAll(comms)
		m.end()
		text := unsafe.Slice((*byte)(unsafe.Pointer(&vector[0])), 8)
		if clear := bytes.Contains(m.heard.Bytes(), text); clear != tt.clear {
			t.Errorf("%s: seen in %d bytes: %v, want %v", tt.more, m.heard.Len(), clear, tt.clear)
		}
		check.That(t, m.heard.Len() >= 400_000, "%s: only %d bytes came by", tt.more, m.heard.Len())
	}
}

// C11, S3: who changes what two ranks send each other makes the call fail on both, or changes
// nothing: no result is wrong. Without a guard it may be, which this test shows as well.
func TestChangedBytesAreDetected(t *testing.T) {
	must.HaveTime(t)
	for _, more := range []string{"RING_CHECKSUM=1", "GORUN_ENCRYPT=1", unguarded} {
		t.Run(more, func(t *testing.T) {
			t.Parallel()
			wrong := 0
			failed := 0
			trials := rounds(20)
			if more == unguarded {
				trials = 6 // most are waited for
			}
			for trial := range trials {
				switch err := tamper(t, pairOf(more), rand.New(rand.NewPCG(11, uint64(trial)))); {
				case errors.Is(err, errWrong):
					wrong++
				case err != nil:
					failed++
				}
			}
			if guarded := more != unguarded; guarded && (wrong > 0 || failed < trials) || !guarded && wrong == 0 {
				t.Errorf("of %d changes %d gave a wrong result, %d an error", trials, wrong, failed)
			}
		})
	}
}

// unguarded is how a job is told to leave data as it is.
const unguarded = "RING_CHECKSUM=0"

var errWrong = errors.New("wrong result")

// tamper turns one bit between two ranks, after they have joined, and returns how their
// calls ended.
func tamper(t *testing.T, l layout, random *rand.Rand) error {
	d := l.job(t)
	m := newMiddleman(t)
	defer d.Close()
	defer m.end()
	var mu sync.Mutex
	left := -1
	conn := random.IntN(l.streams)
	dialer := random.IntN(2) == 0
	done := time.Time{}
	m.touch = func(c int, from bool, _ int, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		if left < 0 || c != conn || from != dialer {
			return
		}
		if left < len(b) {
			b[left] ^= 1 << random.IntN(8)
			done = time.Now()
		}
		left -= len(b)
	}
	m.between(d, 1)
	comms := l.join(t, d)
	defer closeAll(comms)
	f := specOf("allreduce")
	must.OK(t, f.byAll(comms, position{n: 100_000}, synchronously))
	mu.Lock()
	left = random.IntN(130_000)
	mu.Unlock()
	errs := make([]error, l.size)
	// Without a guard, ranks may wait for data that a changed description announced.
	patience, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if len(l.more) > 0 && l.more[0] == unguarded {
		patience, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
	}
	_ = ringtest.Each(l.size, func(rank int) error {
		s := position{n: 100_000}.at(comms[rank])
		for range 3 { // a rank that has what it needs hears of it in the next call
			w := f.fill(s, heap)
			if errs[rank] = synchronously(patience, comms[rank], w); errs[rank] != nil {
				break
			}
			if errs[rank] = f.check(s, w); errs[rank] != nil {
				errs[rank] = fmt.Errorf("%w: %w", errWrong, errs[rank])
				break
			}
		}
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	took := time.Since(done)
	for _, err := range errs {
		if errors.Is(err, errWrong) {
			return err
		}
		if l.more[0] == unguarded {
			continue // whatever it is
		}
		peer := new(ring.PeerError)
		check.That(t, err == nil || errors.As(err, &peer) || errors.As(err, new(*ring.MismatchError)),
			"%v, want an error that names a rank", err)
	}
	if done.IsZero() || errs[0] == nil || errs[1] == nil {
		return nil
	}
	if l.more[0] != unguarded && took > soon { // the goal is 1 s
		t.Errorf("both ranks knew after %v", took)
	}
	return errs[0]
}

// S24: bytes of the hello that say which protocol this is, and how data travels, cannot be
// changed on the way: the ranks do not get together.
func TestGuardIsNotDowngraded(t *testing.T) {
	for _, at := range []int{8, 9, 10, 49} { // version, purpose, guard
		for _, dialer := range []bool{true, false} {
			t.Run(fmt.Sprint(at, dialer), func(t *testing.T) {
				t.Parallel()
				l := pairOf("GORUN_ENCRYPT=1")
				d := l.job(t)
				m := newMiddleman(t)
				m.touch = func(_ int, from bool, offset int, b []byte) {
					if i := at - offset; from == dialer && i >= 0 && i < len(b) {
						b[i] ^= 2
					}
				}
				m.between(d, 1)
				short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
				err := ringtest.Each(2, func(rank int) error {
					c, err := l.enter(short, d, rank)
					if err == nil {
						c.Close()
						return nil
					}
					return fmt.Errorf("refused: %w", err)
				})
				check.That(t, err != nil && strings.Count(err.Error(), "refused: ") == 2,
					"%v, want that nobody joins", err)
			})
		}
	}
}

// S24: a rank that was not told to encrypt does not get into a job of those that were.
func TestRanksMustAgreeOnTheGuard(t *testing.T) {
	l := pairOf()
	for name, more := range map[string][2]string{
		"encrypt": {"GORUN_ENCRYPT=1", "GORUN_ENCRYPT=0"}, "checksum": {"RING_CHECKSUM=1", "RING_CHECKSUM=0"},
	} {
		d := l.job(t)
		err := ringtest.Each(2, func(rank int) error {
			c, err := ring.Init(ctx, ring.WithEnviron(ringtest.Lookup(append(l.environ(d, rank), more[rank]))))
			if err == nil {
				c.Close()
			}
			return err
		})
		check.That(t, err != nil && strings.Contains(err.Error(), "and that of rank"), "%s: %v", name, err)
	}
	d := l.job(t)
	for _, bad := range []string{"GORUN_ENCRYPT=yes", "RING_CHECKSUM=2"} {
		_, err := ring.Init(ctx, ring.WithEnviron(ringtest.Lookup(append(l.environ(d, 0), bad))))
		check.That(t, err != nil && strings.Contains(err.Error(), "ring: "), "%s: %v", bad, err)
	}
}

// A rank that says much of itself is named. The others would keep it all, and try each address:
// each try is a connection, and they last as long as the start.
func TestRankOfManyAddressesIsNamed(t *testing.T) {
	many := func(one string) json.RawMessage {
		return json.RawMessage("[" + strings.Repeat(one+",", 999) + one + "]")
	}
	with := func(name string, list json.RawMessage) func(value []byte) []byte {
		return func(value []byte) []byte {
			var c map[string]json.RawMessage
			check.OK(t, json.Unmarshal(value, &c))
			c[name] = list
			return must.Get(json.Marshal(c))(t)
		}
	}
	for name, tt := range map[string]struct {
		fence string
		lie   func(value []byte) []byte
		want  string
	}{
		"addresses": {"/addr", with("addrs", many(`"127.0.0.1:1024"`)), "rank 1 says that it listens on"},
		"rails": {"/addr", with("rails", many(`{"addr":"127.0.0.1:1024","bits":8,"interface":"eth0"}`)),
			"rank 1 says that it listens on"},
		"host": {"/host", func([]byte) []byte { return make([]byte, 1<<12) }, "rank 1 calls its host by"},
	} {
		l := pairOf()
		d := l.job(t)
		d.OnPost(func(fence string, rank int, value []byte) []byte {
			if !strings.HasSuffix(fence, tt.fence) || rank != 1 {
				return value
			}
			return tt.lie(value)
		})
		comms := make([]*ring.Comm, l.size)
		err := ringtest.Each(l.size, func(rank int) (err error) {
			comms[rank], err = l.enter(ctx, d, rank)
			return err
		})
		closeAll(comms)
		check.Error(err).Says(t, tt.want, name)
	}
}

// R21: what a rank said to another at the start of one job opens nothing in the next, nor a
// second time in the same one.
func TestReplayedRecordingIsRejected(t *testing.T) {
	must.HaveTime(t)
	l := pairOf()
	l.streams = 1
	first := l.job(t)
	m := newMiddleman(t)
	m.between(first, 1)
	comms := l.join(t, first)
	closeAll(comms)
	m.end()
	recording := m.heard.Bytes()
	second := l.job(t)
	second.ID = first.ID
	second.Key = first.Key // as near as another run can be
	second.OnPost(func(name string, rank int, value []byte) []byte {
		var c card
		if isAddr(name) && rank == 1 && json.Unmarshal(value, &c) == nil {
			for range 20 {
				if n := answerTo(c.Addrs[0].String(), recording); n != 120 && n != 0 {
					// 120: the hello of one who holds the key, as it was a good hello once
					t.Errorf("a recording was answered with %d bytes", n)
				}
			}
		}
		return value
	})
	for rank, c := range l.join(t, second) {
		check.Equal(t, c.Rank(), rank, "rank", rank)
	}
}

// answerTo says text at addr and returns how much comes back.
func answerTo(addr string, text []byte) int {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0
	}
	defer conn.Close()
	// the rank may not read yet, and the kernel may not buffer all of text
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write(text) // the rank may close the connection at once
	_ = conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	n, _ := io.Copy(io.Discard, conn)
	return int(n)
}

// R12: between two ranks every byte travels by itself, from their handshake on. All calls give what
// they should.
func TestOneByteSegments(t *testing.T) {
	for _, more := range []string{unguarded, "RING_CHECKSUM=1", "GORUN_ENCRYPT=1"} {
		t.Run(more, func(t *testing.T) {
			t.Parallel()
			l := pairOf(more)
			d := l.job(t)
			m := newMiddleman(t)
			m.single = true
			m.between(d, 1)
			comms := l.join(t, d)
			everyKind(t, comms, 100, synchronously)
			everyKind(t, comms, 100, asynchronously)
			closeAll(comms)
			m.end()
			check.That(t, m.heard.Len() >= 10_000, "only %d bytes came by", m.heard.Len())
		})
	}
}
