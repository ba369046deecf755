package gloo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// store is a job's store in one process.
type store struct {
	mu     sync.Mutex
	values map[string][]byte
	waits  map[string]chan struct{}
	puts   atomic.Int64
	gets   atomic.Int64
}

func newStore() *store { return &store{values: map[string][]byte{}, waits: map[string]chan struct{}{}} }

func (s *store) Put(key string, value []byte) error {
	s.puts.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = bytes.Clone(value)
	if c := s.waits[key]; c != nil {
		close(c)
		delete(s.waits, key)
	}
	return nil
}

func (s *store) Get(ctx context.Context, key string, _ time.Duration) ([]byte, bool, error) {
	s.gets.Add(1)
	for {
		s.mu.Lock()
		value, found := s.values[key]
		c := s.waits[key]
		if !found && c == nil {
			c = make(chan struct{})
			s.waits[key] = c
		}
		s.mu.Unlock()
		if found {
			return value, true, nil
		}
		select {
		case <-c:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// world is a job of simulated Horovod ranks on simulated hosts.
type world struct {
	t        testing.TB
	perHost  int
	size     int
	ports    []string // by rank
	store    *store
	requests atomic.Int64
	polls    atomic.Int64
}

func newWorld(t testing.TB, size, perHost int) *world {
	w := &world{t: t, perHost: perHost, size: size, store: newStore()}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var listeners []net.Listener
	var host *Host
	var hosts []*Host
	for rank := range size {
		if rank%perHost == 0 {
			host = NewHost(ctx, w.store)
			hosts = append(hosts, host)
		}
		l, err := Listen()
		if err != nil {
			t.Fatal(err)
		}
		r := host.Rank()
		wg.Go(func() { r.Serve(l, func(net.Conn) bool { return true }) })
		listeners, w.ports = append(listeners, l), append(w.ports, l.Addr().String())
	}
	t.Cleanup(func() {
		cancel()
		for _, l := range listeners {
			l.Close()
		}
		wg.Wait()
		for _, h := range hosts {
			h.Wait()
		}
	})
	return w
}

// ask is one request as Horovod's client makes it, byte by byte.
func (w *world) ask(rank int, method, path string, body []byte) (status int, value []byte, err error) {
	w.requests.Add(1)
	conn, err := net.Dial("tcp4", w.ports[rank])
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n", method, path, len(body))
	if _, err := conn.Write(append([]byte(head), body...)); err != nil {
		return 0, nil, err
	}
	return readReply(conn)
}

// readReply reads as the client does: names of headers are what they are.
func readReply(conn io.Reader) (status int, value []byte, err error) {
	r := bufio.NewReaderSize(conn, 512)
	length := -1
	for n := 0; ; n++ {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, nil, err
		}
		switch {
		case n == 0:
			_, err = fmt.Sscanf(line, "HTTP/1.0 %d", &status)
		case line == "\r\n":
			value = make([]byte, max(length, 0))
			_, err = io.ReadFull(r, value)
			return status, value, err
		default:
			_, _ = fmt.Sscanf(line, "Content-Length: %d", &length)
		}
		if err != nil {
			return 0, nil, err
		}
	}
}

// record is where rank awaits peer: of IPv4, of IPv6, or of something else, with garbage where nothing means anything.
func record(dice *rand.Rand, rank, peer, round int) []byte {
	r := make([]byte, recordSize)
	for i := range r {
		r[i] = byte(dice.Uint32())
	}
	port := uint16(rank*131 + peer*7 + round)
	switch (rank + peer) % 3 {
	case 0:
		binary.LittleEndian.PutUint16(r, familyIPv4)
		binary.BigEndian.PutUint16(r[2:], port)
		binary.BigEndian.PutUint32(r[4:], uint32(rank)<<16|uint32(peer))
	case 1:
		binary.LittleEndian.PutUint16(r, familyIPv6)
		binary.BigEndian.PutUint16(r[2:], port)
		binary.BigEndian.PutUint32(r[20:], uint32(rank)<<16|uint32(peer))
	}
	copy(r[128:], allOnes())
	if (rank+peer)%3 == 2 {
		binary.LittleEndian.PutUint64(r[128:], uint64(rank)<<32|uint64(peer)) // an unusual sequence number
	}
	return r
}

// meaning is what a client takes from a record.
func meaning(r []byte) string {
	switch binary.LittleEndian.Uint16(r) {
	case familyIPv4:
		return fmt.Sprintf("%x %x", r[:8], r[128:])
	case familyIPv6:
		return fmt.Sprintf("%x %x", r[:28], r[128:])
	}
	return fmt.Sprintf("%x", r)
}

// meet is the whole of one scope's rendezvous, as rank i of n in it; process is who asks.
func (w *world) meet(process int, scope string, i, n, round int, barrier *sync.WaitGroup) error {
	path := func(key string) string { return "/" + scope + "/" + key }
	want := func(status int, err error, method, key string) error {
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path(key), err)
		}
		return nil
	}
	status, _, err := w.ask(process, "PUT", path(hostNameOf(i)), []byte("host"))
	if err := want(status, err, "PUT", hostNameOf(i)); err != nil {
		return err
	}
	for j := range i {
		status, name, err := w.ask(process, "GET", path(hostNameOf(j)), nil)
		if err := want(status, err, "GET", hostNameOf(j)); err != nil || string(name) != "host" {
			return fmt.Errorf("name %q: %w", name, err)
		}
	}
	var body []byte
	for j := range n {
		if j != i {
			body = append(body, record(rand.New(rand.NewPCG(uint64(i), uint64(j))), i, j, round)...)
		}
	}
	status, _, err = w.ask(process, "PUT", path(strconv.Itoa(i)), body)
	if err := want(status, err, "PUT", strconv.Itoa(i)); err != nil {
		return err
	}
	for j := range n {
		if j == i {
			continue
		}
		for status = 0; status != http.StatusOK; w.polls.Add(1) {
			if status, _, err = w.ask(process, "GET", path(strconv.Itoa(j)), nil); err != nil {
				return err
			}
		}
		_, value, err := w.ask(process, "GET", path(strconv.Itoa(j)), nil)
		if err != nil || len(value) != (n-1)*recordSize {
			return fmt.Errorf("addresses of %d: %d bytes, %w", j, len(value), err)
		}
		at := i
		if i > j {
			at = i - 1
		}
		got := value[at*recordSize : (at+1)*recordSize]
		if dice := rand.New(rand.NewPCG(uint64(j), uint64(i))); meaning(got) != meaning(record(dice, j, i, round)) {
			return fmt.Errorf("rank %d of %s awaits rank %d at another address", j, scope, i)
		}
	}
	barrier.Done() // Gloo's own, over the sockets
	barrier.Wait()
	status, _, err = w.ask(process, "DELETE", path(strconv.Itoa(i)), nil)
	return want(status, err, "DELETE", strconv.Itoa(i))
}

// rendezvous has all ranks meet in Horovod's three scopes, and says how it went. delay is how long
// a rank takes to come.
func (w *world) rendezvous(round int, delay func(rank int) time.Duration) error {
	locals, hosts := w.perHost, w.size/w.perHost
	barriers := map[string]*sync.WaitGroup{}
	barrier := func(name string, n int) *sync.WaitGroup {
		if barriers[name] == nil {
			barriers[name] = &sync.WaitGroup{}
			barriers[name].Add(n)
		}
		return barriers[name]
	}
	errs := make(chan error, w.size)
	for rank := range w.size {
		host, local := rank/w.perHost, rank%w.perHost
		global := barrier("global", w.size)
		here := barrier(fmt.Sprint("local", host), locals)
		cross := barrier(fmt.Sprint("cross", local), hosts)
		go func() {
			time.Sleep(delay(rank))
			err := w.meet(rank, "global", rank, w.size, round, global)
			if err == nil {
				err = w.meet(rank, fmt.Sprintf("local_f%d", host), local, locals, round, here)
			}
			if err == nil {
				err = w.meet(rank, fmt.Sprintf("cross_%d", local), host, hosts, round, cross)
			}
			errs <- err
		}()
	}
	for range w.size {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func atOnce(int) time.Duration { return 0 }

// All ranks find all others, whatever their number, and again when Horovod is shut down and begun anew.
func TestRendezvous(t *testing.T) {
	for _, tc := range [][2]int{{1, 1}, {2, 1}, {2, 2}, {6, 3}, {12, 4}, {16, 16}} {
		t.Run(fmt.Sprintf("%d ranks, %d a host", tc[0], tc[1]), func(t *testing.T) {
			w := newWorld(t, tc[0], tc[1])
			for round := range 3 {
				if err := w.rendezvous(round, atOnce); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
			}
		})
	}
}

// Nobody asks twice for what is not there yet: whoever comes early waits for an answer.
func TestNobodyPolls(t *testing.T) {
	w := newWorld(t, 8, 4)
	if err := w.rendezvous(0, func(rank int) time.Duration { return time.Duration(rank) * 30 * time.Millisecond }); err != nil {
		t.Fatal(err)
	}
	pairs := int64(8*7 + 2*4*3 + 4*2*1)
	if got := w.polls.Load(); got != pairs {
		t.Errorf("%d questions for addresses before they were there, for %d pairs", got-pairs, pairs)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t, 2, 2)
	two, other := record(rand.New(rand.NewPCG(0, 0)), 0, 3, 0), record(rand.New(rand.NewPCG(0, 0)), 0, 3, 1)
	for _, tc := range []struct {
		method, path string
		body         []byte
		want         int
	}{
		{"GET", "/global/0", nil, 404},
		{"GET", "/global/rank_0", nil, 404},
		{"PUT", "/global/0", two, 200},
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
		if got, _, err := w.ask(0, tc.method, tc.path, tc.body); err != nil || got != tc.want {
			t.Errorf("%s %s: %d, %v; want %d", tc.method, tc.path, got, err, tc.want)
		}
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
	f.Fuzz(func(t *testing.T, data []byte) {
		if packed, err := pack(data); err == nil {
			n := len(data) / recordSize
			back, err := unpack(nil, packed, n)
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if a, b := data[i*recordSize:][:recordSize], back[i*recordSize:][:recordSize]; meaning(a) != meaning(b) {
					t.Errorf("%x became %x", a, b)
				}
			}
		}
		_, _ = unpack(nil, data, 3)
	})
}

func benchmarkRendezvous(b *testing.B, size, perHost int) {
	for b.Loop() {
		w := newWorld(b, size, perHost)
		if err := w.rendezvous(0, atOnce); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(w.requests.Load()), "requests")
		b.ReportMetric(float64(w.store.gets.Load()), "gets")
	}
}

func BenchmarkRendezvous(b *testing.B) {
	for _, size := range []int{8, 32, 128, 512} {
		b.Run(strconv.Itoa(size), func(b *testing.B) { benchmarkRendezvous(b, size, 8) })
	}
}
