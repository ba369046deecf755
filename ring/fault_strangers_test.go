package ring_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// card is what a rank tells the others of its address, as join.go writes it.
type card struct {
	Host    string           `json:"host"`
	Addrs   []netip.AddrPort `json:"addrs"`
	Stripes int              `json:"stripes"`
	Guard   string           `json:"guard,omitempty"`
	Cert    []byte           `json:"cert,omitempty"`
}

// isAddr reports whether a fence is the one where ranks tell their addresses.
func isAddr(name string) bool { return strings.HasSuffix(name, "/addr") }

// greetings are what programs say that meet a port which is not theirs.
func greetings() map[string][]byte {
	random := make([]byte, 64<<10)
	rand.Read(random)
	return map[string][]byte{
		"nothing": nil,
		"http":    []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"http2":   []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		"tls":     {22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3, 1, 2, 3, 4},
		"ssh":     []byte("SSH-2.0-OpenSSH_9.2\r\n"),
		"redis":   []byte("*1\r\n$4\r\nPING\r\n"),
		"smtp":    []byte("EHLO x\r\n"),
		"mqtt":    {0x10, 12, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60, 0, 0},
		"sql":     {0, 0, 0, 8, 4, 210, 22, 47},                                  // asks for TLS
		"rdp":     {3, 0, 0, 19, 14, 224, 0, 0, 0, 0, 0, 1, 0, 8, 0, 3, 0, 0, 0}, // desktop
		"hydra":   []byte("HYD\x00cmd=init pmi_version=1 pmi_subversion=1\n"),
		"rank":    []byte("gorunrng\x00\x02"), // and no more
		"zeros":   make([]byte, 4096),
		"random":  random,
	}
}

// strangers connect to addresses: most say something and are closed at once, and some are kept, and
// say a byte now and then.
type strangers struct {
	keep    int           // of those at each address
	pause   time.Duration // of each of eight, after a connection
	greeted [][]byte
	stop    chan struct{}
	once    sync.Once
	running sync.WaitGroup
	made    atomic.Int64
}

// newStrangers returns strangers that end with the test.
func newStrangers(t *testing.T, keep int, pause time.Duration) *strangers {
	s := &strangers{keep: keep, pause: pause, stop: make(chan struct{})}
	for _, text := range greetings() {
		s.greeted = append(s.greeted, text)
	}
	t.Cleanup(s.end)
	return s
}

// at has them begin to connect to an address.
func (s *strangers) at(addr string) {
	for range 8 {
		s.running.Go(func() { s.pour(addr) })
	}
}

func (s *strangers) pour(addr string) {
	var kept []net.Conn
	defer func() {
		for _, conn := range kept {
			conn.Close()
		}
	}()
	for {
		select {
		case <-s.stop:
			return
		case <-time.After(s.pause):
		}
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			time.Sleep(time.Millisecond) // out of ports, or the listeners are closed
			continue
		}
		n := int(s.made.Add(1))
		if len(kept) < s.keep/8 {
			kept = append(kept, conn)
			_, _ = conn.Write([]byte{'g'}) // it may be cut off at once
			continue
		}
		_, _ = conn.Write(s.greeted[n%len(s.greeted)])
		conn.Close()
		if len(kept) > 0 {
			_, _ = kept[n%len(kept)].Write([]byte{'o'})
		}
	}
}

func (s *strangers) end() {
	s.once.Do(func() { close(s.stop) })
	s.running.Wait()
}

// listening calls do with the addresses of each rank as it joins.
func listening(d *ringtest.Job, do func(rank int, addrs []netip.AddrPort)) {
	d.OnPost(func(name string, rank int, value []byte) []byte {
		var mine card
		if isAddr(name) && json.Unmarshal(value, &mine) == nil {
			do(rank, mine.Addrs)
		}
		return value
	})
}

// All kinds of strangers connect while the ranks join, and while they work. The last
// rank is held back until many of them were there.
// It is row R19 of the fault matrix.
func TestUnauthenticatedPeersDoNotDisturb(t *testing.T) {
	must.HaveTime(t)
	for _, l := range layouts() {
		if l.name == "shm" {
			continue // has no listeners
		}
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			s := newStrangers(t, 300, time.Millisecond)
			d := l.job(t)
			listening(d, func(rank int, addrs []netip.AddrPort) {
				if rank == l.size-1 {
					s.at(addrs[0].String())
					must.Until(t, "many strangers have come", func() bool { return s.made.Load() > 500 })
				}
			})
			begin := time.Now()
			comms := l.join(t, d)
			took := time.Since(begin)
			// A rank that strangers kept out would wait for 30 s, the bound on a link.
			check.That(t, took <= 25*time.Second, "joining took %v", took)
			everyKind(t, comms, 3000, synchronously)
		})
	}
}

// R19, R20, S23: a rank is flooded while it waits for another one: thousands of connections are
// half open, and more come and go than it can serve. It needs no more memory for that, and
// the rank that it waits for gets in and gets the right results.
func TestFloodDuringInit(t *testing.T) {
	must.HaveTime(t)
	for _, more := range []string{unguarded, "GORUN_ENCRYPT=1"} {
		t.Run(more, func(t *testing.T) {
			l := over("tcp", 2, more)
			d := l.job(t)
			m := newMiddleman(t)
			m.gate = make(chan struct{})
			m.between(d, 1)
			flooded := startRank(t, l, d, 1, duty{Form: "allreduce", N: 3000})
			joined := make(chan error, 1)
			go func() {
				comm, err := l.enter(ctx, d, 0)
				if err != nil {
					joined <- err
					return
				}
				defer comm.Close()
				joined <- specOf("allreduce").once(comm, position{n: 3000}, synchronously)
			}()
			addr := <-m.found
			time.Sleep(200 * time.Millisecond) // until it is at rest
			before := resident(t, flooded.Process.Pid)
			s := newStrangers(t, 2000, 0)
			s.at(addr.String())
			most := before
			for begun := time.Now(); time.Since(begun) < 2*time.Second || s.made.Load() < 10_000 &&
				time.Since(begun) < 15*time.Second; time.Sleep(50 * time.Millisecond) {
				most = max(most, resident(t, flooded.Process.Pid))
			}
			begun := time.Now()
			close(m.gate)
			var err error
			select {
			case err = <-joined:
			case <-time.After(30 * time.Second): // the goal is 2 s
				t.Fatal("the rank did not get in")
			}
			took := time.Since(begun)
			s.end()
			t.Logf("%d connections, %d KiB more, in after %v", s.made.Load(), (most-before)>>10, took)
			check.OK(t, err)
			if limit := 16 << 20; !raceEnabled && most-before > limit {
				t.Errorf("%d bytes more, at most %d are right", most-before, limit)
			}
		})
	}
}

// S23: garbage at the listeners of ranks and agents changes no bit of a result, and loses no rank.
// So many ranks do not all dial each other when they join, so that listeners stay open.
func TestGarbageChangesNoByte(t *testing.T) {
	must.HaveTime(t)
	for _, more := range []string{unguarded, "RING_CHECKSUM=1", "GORUN_ENCRYPT=1"} {
		if raceEnabled && more == unguarded {
			continue // less of the same
		}
		t.Run(more, func(t *testing.T) {
			l := over("tcp", 18, more)
			d := l.job(t)
			var mu sync.Mutex
			listeners := []string{d.Rank(0, "127.0.0.1").Agent}
			listening(d, func(_ int, addrs []netip.AddrPort) {
				mu.Lock()
				defer mu.Unlock()
				for _, addr := range addrs {
					listeners = append(listeners, addr.String())
				}
			})
			comms := l.join(t, d)
			s := newStrangers(t, 16, 100*time.Millisecond)
			results := [2][]byte{}
			for i := range results {
				for begun, n := time.Now(), 0; n == 0 || i == 1 && time.Since(begun) < time.Second; n++ {
					vectors := make([][]byte, l.size)
					for rank := range vectors {
						vectors[rank] = awkwardVector(ring.Float32, rank, 20_000)
					}
					must.OK(t, combine(comms, ring.Float32, ring.Sum, vectors))
					for rank, v := range vectors {
						if results[i] == nil {
							results[i] = v
						}
						must.That(t, bytes.Equal(v, results[0]), "rank %d has other bits than rank 0 had at rest", rank)
					}
				}
				if i == 0 {
					for _, addr := range listeners {
						s.at(addr)
					}
				}
			}
			everyKind(t, comms, 3000, synchronously)
			check.That(t, s.made.Load() != 0, "nobody has come, so nothing is shown")
			check.That(t, len(d.Losses())+len(d.Leaves()) <= 0, "lost: %v, left: %v", d.Losses(), d.Leaves())
		})
	}
}

// The ranks of a job first call the listeners of another job, and those of another epoch of the
// same job, which has the same key.
// It is rows R17 and R18 of the fault matrix.
func TestCrossedJobsStayApart(t *testing.T) {
	onLayouts(t, func(t *testing.T, l layout) {
		if l.name == "shm" {
			return
		}
		t.Parallel()
		crossJobs(t, l, l.job(t), l.job(t))
		old := l.job(t)
		next := l.job(t)
		next.ID = old.ID
		next.Key = old.Key
		next.Epoch = 1
		crossJobs(t, l, old, next)
	})
}

// crossJobs runs two jobs at once. The ranks of own dial the last rank of other before that of
// their own job.
func crossJobs(t *testing.T, l layout, own, other *ringtest.Job) {
	t.Helper()
	others := make(chan card, l.size)
	proceed := make(chan struct{})
	other.OnPost(func(name string, rank int, value []byte) []byte {
		if isAddr(name) && rank == l.size-1 {
			var c card
			if json.Unmarshal(value, &c) == nil {
				others <- c
			}
			<-proceed // its listeners stay open until the first job has tried them
		}
		return value
	})
	own.OnPost(func(name string, rank int, value []byte) []byte {
		if !isAddr(name) || rank != l.size-1 {
			return value
		}
		var mine card
		if json.Unmarshal(value, &mine) != nil {
			return value
		}
		crossed := <-others
		mine.Addrs = append(crossed.Addrs, mine.Addrs...)
		text, _ := json.Marshal(mine)
		return text
	})
	ringtest.All(t, 2, func(i int) error {
		d := []*ringtest.Job{own, other}[i]
		comms := make([]*ring.Comm, l.size)
		defer closeAll(comms)
		err := ringtest.Each(l.size, func(rank int) (err error) {
			comms[rank], err = l.enter(ctx, d, rank)
			return err
		})
		if i == 0 {
			close(proceed)
		}
		if err != nil {
			return err
		}
		return specOf("allreduce").byAll(comms, position{n: 3000}, synchronously)
	})
}

// Two processes that say they are the same rank: one is refused, and never joins.
// It is row R18 of the fault matrix.
func TestDuplicateRankIsRejected(t *testing.T) {
	onLayouts(t, func(t *testing.T, l layout) {
		d := l.job(t)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		comms := make([]*ring.Comm, l.size+1)
		defer closeAll(comms)
		refused := make(chan error, 2)
		err := ringtest.Each(l.size+1, func(i int) error {
			c, err := l.enter(short, d, i%l.size)
			comms[i] = c
			if err != nil && strings.Contains(err.Error(), "already done once by this rank") {
				refused <- err
				return nil
			}
			return err
		})
		check.That(t, len(refused) != 0, "both were let in")
		if err != nil && len(refused) < 2 {
			t.Log(err) // the two took turns at the fences, so neither can join
		}
	})
}
