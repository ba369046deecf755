package gloo

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// world is a job of simulated Horovod ranks on simulated hosts.
type world struct {
	perHost  int
	size     int
	ranks    []int // those that are in this process
	ports    []int // by rank
	requests atomic.Int64
	polls    atomic.Int64
}

// newWorld has all of a job in this process.
func newWorld(t testing.TB, size, perHost int) *world {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{perHost: perHost, size: size}
	store := fake.NewStore(size)
	var hosts []*Host
	var listeners []net.Listener
	var served sync.WaitGroup
	for rank := range size {
		if rank%perHost == 0 {
			hosts = append(hosts, NewHost(ctx, store))
		}
		r := hosts[rank/perHost].Rank()
		l := must.Get(Listen())(t)
		served.Go(func() { r.Serve(l, func(net.Conn) bool { return true }) })
		listeners = append(listeners, l)
		w.ports = append(w.ports, l.Addr().(*net.TCPAddr).Port)
		w.ranks = append(w.ranks, rank)
	}
	t.Cleanup(func() {
		cancel()
		for _, l := range listeners {
			l.Close()
		}
		served.Wait()
		for _, h := range hosts {
			h.Wait()
		}
	})
	return w
}

// mustAsk makes a request that must succeed.
func (w *world) mustAsk(t *testing.T, rank int, method, path string, body []byte) {
	t.Helper()
	status, _, err := w.ask(rank, method, path, body)
	must.That(t, err == nil && status == http.StatusOK, "%s %s by rank %d: %d, %v", method, path, rank, status, err)
}

// record is the address at which rank awaits peer, of IPv4, IPv6 or an unknown family. Bytes
// without a meaning are random.
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
	copy(r[128:], bytes.Repeat([]byte{0xff}, 8))
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

// place is rank i of n in a scope.
type place struct {
	scope string
	i, n  int
}

// meet is the whole of one scope's rendezvous; process is the one that asks.
func (w *world) meet(process int, at place, round int, barrier *sync.WaitGroup) error {
	scope := at.scope
	i := at.i
	n := at.n
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
	status, _, err := w.ask(process, "PUT", path("rank_"+addressOf(i)), []byte("host"))
	if err := want(status, err, "PUT", "rank_"+addressOf(i)); err != nil {
		return err
	}
	for j := range i {
		status, name, err := w.ask(process, "GET", path("rank_"+addressOf(j)), nil)
		if err := want(status, err, "GET", "rank_"+addressOf(j)); err != nil || string(name) != "host" {
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
		own := i // the record that is for us
		if i > j {
			own = i - 1
		}
		got := value[own*recordSize : (own+1)*recordSize]
		if dice := rand.New(rand.NewPCG(uint64(j), uint64(i))); meaning(got) != meaning(record(dice, j, i, round)) {
			return fmt.Errorf("rank %d of %s awaits rank %d at another address", j, scope, i)
		}
	}
	barrier.Done() // Gloo's own, over the sockets; here of the ranks in this process
	barrier.Wait()
	status, _, err = w.ask(process, "DELETE", path(strconv.Itoa(i)), nil)
	return want(status, err, "DELETE", strconv.Itoa(i))
}

// rendezvous has all ranks of this process meet the job's others in Horovod's three scopes, and
// says how it went. delay is how long a rank takes to come.
func (w *world) rendezvous(round int, delay func(rank int) time.Duration) error {
	scopes := func(rank int) [3]place {
		host := rank / w.perHost
		local := rank % w.perHost
		return [3]place{{"global", rank, w.size}, {fmt.Sprintf("local_f%d", host), local, w.perHost},
			{fmt.Sprintf("cross_%d", local), host, w.size / w.perHost}}
	}
	barriers := map[string]*sync.WaitGroup{}
	for _, rank := range w.ranks {
		for _, at := range scopes(rank) {
			if barriers[at.scope] == nil {
				barriers[at.scope] = &sync.WaitGroup{}
			}
			barriers[at.scope].Add(1)
		}
	}
	errs := make(chan error, len(w.ranks))
	for _, rank := range w.ranks {
		go func() {
			time.Sleep(delay(rank))
			for _, at := range scopes(rank) {
				if err := w.meet(rank, at, round, barriers[at.scope]); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range w.ranks {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

func atOnce(int) time.Duration { return 0 }

// All ranks find all others, whatever their number, and again when Horovod is shut down and begun
// anew.
func TestRendezvous(t *testing.T) {
	must.HaveTime(t)
	for _, tc := range [][2]int{{1, 1}, {2, 1}, {2, 2}, {6, 3}, {12, 4}, {16, 16}, {128, 32}} {
		t.Run(fmt.Sprintf("%d ranks, %d a host", tc[0], tc[1]), func(t *testing.T) {
			w := newWorld(t, tc[0], tc[1])
			for round := range 1 + 32/tc[0] {
				must.OK(t, w.rendezvous(round, atOnce), "round", round)
			}
		})
	}
}

// Nobody asks twice for what is not there yet: whoever comes early waits for an answer.
func TestNobodyPolls(t *testing.T) {
	w := newWorld(t, 8, 4)
	must.OK(t, w.rendezvous(0, func(rank int) time.Duration {
		return time.Duration(rank) * 30 * time.Millisecond
	}))
	pairs := int64(8*7 + 2*4*3 + 4*2*1)
	got := w.polls.Load()
	check.That(t, got == pairs, "%d questions for addresses before they were there, for %d pairs", got-pairs, pairs)
}

// BenchmarkRendezvous makes all ranks of a job connect, again and again.
func BenchmarkRendezvous(b *testing.B) {
	for _, size := range []int{8, 32, 128, 512} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			w := newWorld(b, size, 8)
			for round := 0; b.Loop(); round++ {
				must.OK(b, w.rendezvous(round, atOnce))
			}
			b.ReportMetric(float64(w.requests.Load())/float64(b.N), "requests")
		})
	}
}
