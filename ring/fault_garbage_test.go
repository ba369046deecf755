package ring_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// garbageRate is what the agent's job is sent, and the listeners of ranks together, in bytes a
// second.
const garbageRate = 10 << 20

// garbage sends random bytes to addresses at the same time, on one connection after the
// other to each, while it is on.
type garbage struct {
	on      atomic.Bool
	stop    chan struct{}
	running sync.WaitGroup
	sent    []atomic.Int64 // by address
}

func garbageAt(tb testing.TB, job string, listeners []string) *garbage {
	s := &garbage{stop: make(chan struct{}), sent: make([]atomic.Int64, 1+len(listeners))}
	waste := make([]byte, 64<<10)
	rand.Read(waste)
	s.running.Go(func() { s.pour(job, waste, garbageRate, &s.sent[0]) })
	for i, addr := range listeners {
		s.running.Go(func() { s.pour(addr, waste, garbageRate/float64(len(listeners)), &s.sent[1+i]) })
	}
	tb.Cleanup(s.running.Wait)
	tb.Cleanup(func() { close(s.stop) })
	return s
}

// pour sends so many bytes a second. Who is cut off dials again.
func (s *garbage) pour(addr string, waste []byte, rate float64, sent *atomic.Int64) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	var conn net.Conn
	owed := 0
	last := time.Now()
	for {
		now := time.Now()
		owed = min(owed+int(rate*now.Sub(last).Seconds()), 1<<20)
		last = now
		for owed > 0 && s.on.Load() {
			var n int
			if conn, n = throw(conn, addr, waste[:min(owed, len(waste))]); conn == nil && n == 0 {
				break // the job is closed, which is its answer
			}
			owed -= n
			sent.Add(int64(n))
		}
		if !s.on.Load() {
			owed = 0
		}
		select {
		case <-s.stop:
			if conn != nil {
				conn.Close()
			}
			return
		case <-tick.C:
		}
	}
}

// throw writes to conn, or to a new connection if there is none. It returns the one to go on with,
// if that was not cut off, and how many bytes went out.
func throw(conn net.Conn, addr string, waste []byte) (net.Conn, int) {
	if conn == nil {
		var err error
		if conn, err = net.Dial("tcp", addr); err != nil {
			return nil, 0
		}
	}
	_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	n, err := conn.Write(waste)
	if err != nil {
		conn.Close()
		return nil, n
	}
	return conn, n
}

// amount is how many bytes were sent to the first address, and to the others.
func (s *garbage) amount() (first, others int64) {
	for i := range s.sent {
		others += s.sent[i].Load()
	}
	first = s.sent[0].Load()
	return first, others - first
}

// beset starts a job whose listeners, and its agent's job, get garbage when that is on. It returns
// the listeners of ranks.
func beset(tb testing.TB, l layout) (comms []*ring.Comm, d *ringtest.Job, listeners []string, s *garbage) {
	tb.Helper()
	d = l.job(tb)
	var mu sync.Mutex
	d.OnPost(func(name string, _ int, value []byte) []byte {
		var c card
		if isAddr(name) && json.Unmarshal(value, &c) == nil {
			mu.Lock()
			defer mu.Unlock()
			for _, addr := range c.Addrs {
				listeners = append(listeners, addr.String())
			}
		}
		return value
	})
	comms = l.join(tb, d)
	return comms, d, listeners, garbageAt(tb, d.Rank(0, "127.0.0.1").Agent, listeners)
}

// manyRanks are so many that some do not dial each other when they join, so that their
// listeners stay open.
const manyRanks = 18

// S23: garbage at the listeners of ranks and agents changes no bit of a result, and loses no rank.
func TestGarbageChangesNoByte(t *testing.T) {
	must.HaveTime(t)
	for _, more := range []string{unguarded, "RING_CHECKSUM=1", "GORUN_ENCRYPT=1"} {
		if raceEnabled && more == unguarded {
			continue // less of the same
		}
		t.Run(more, func(t *testing.T) {
			comms, d, _, s := beset(t, over("tcp", manyRanks, more))
			results := [2][]byte{}
			for i := range results {
				s.on.Store(i == 1)
				for begun, n := time.Now(), 0; n == 0 || i == 1 && time.Since(begun) < time.Second; n++ {
					vectors := make([][]byte, len(comms))
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
			}
			for _, f := range specs() {
				if err := ringtest.Each(len(comms), func(rank int) error {
					return f.once(comms[rank], position{n: 3000}, synchronously)
				}); err != nil {
					t.Errorf("%s: %v", f.name, err)
				}
			}
			job, listeners := s.amount()
			t.Logf("%d KiB at the agent's job, %d KiB at ranks", job>>10, listeners>>10)
			check.That(t, job != 0 && listeners != 0, "no garbage was sent, so nothing is shown")
			check.That(t, len(d.Losses())+len(d.Leaves()) <= 0, "lost: %v, left: %v", d.Losses(), d.Leaves())
		})
	}
}

// sinks are as many plain listeners in this process as take the garbage of ranks and job, in whose
// place they stand: each cuts a stranger off after as many bytes as a rank reads of one.
func sinks(tb testing.TB, n int) (addrs []string) {
	var serving sync.WaitGroup
	tb.Cleanup(serving.Wait)
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.OK(tb, err)
		tb.Cleanup(func() { l.Close() })
		addrs = append(addrs, l.Addr().String())
		serving.Go(func() {
			head := make([]byte, 88)
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.ReadFull(conn, head)
				conn.Close()
			}
		})
	}
	return addrs
}

// BenchmarkGarbage compares allreduces, in turns, without and with 10 MiB/s of garbage at every
// listener, and with the same garbage at listeners that are none of the job's: who sends takes its
// time from the same cores, and that is not our cost. Of four ranks all listeners are closed by
// then, but for the agent's job; of many some are open.
func BenchmarkGarbage(b *testing.B) {
	for _, size := range []int{4, manyRanks} {
		for _, bytes := range []int{64 << 10, 4 << 20} {
			b.Run(fmt.Sprintf("ranks=%d/%dKiB", size, bytes>>10), func(b *testing.B) {
				comms, d, listeners, s := beset(b, over("tcp", size))
				open := answering(listeners)
				elsewhere := sinks(b, 1+open)
				sink := garbageAt(b, elsewhere[0], elsewhere[1:])
				reduce := reducer(comms, bytes)
				rounds := roundsIn(b, time.Second/2, reduce)
				during := func(s *garbage, took *time.Duration) func() time.Duration {
					return func() time.Duration {
						s.on.Store(true)
						defer s.on.Store(false)
						round := timed(b, rounds, reduce)
						*took += round * time.Duration(rounds)
						return round
					}
				}
				var beset, beside time.Duration
				inTurns(b, []string{"rest", "sink", "garbage"}, []func() time.Duration{
					func() time.Duration { return timed(b, rounds, reduce) }, during(sink, &beside), during(s, &beset),
				})
				report := func(s *garbage, took time.Duration, names ...string) {
					job, listeners := s.amount()
					b.ReportMetric(float64(job)/(1<<20)/took.Seconds(), names[0]+"-MiB/s")
					b.ReportMetric(float64(listeners)/(1<<20)/took.Seconds(), names[1]+"-MiB/s")
				}
				report(s, beset, "job", "ranks")
				report(sink, beside, "sink-job", "sink-ranks")
				if lost := d.Losses(); len(lost) > 0 {
					b.Errorf("lost: %v", lost)
				}
			})
		}
	}
}

// answering is how many of addrs somebody listens at.
func answering(addrs []string) (n int) {
	for _, addr := range addrs {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			n++
		}
	}
	return n
}
