package ring_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// flood is connections to one address, as many as can be made: most say something and are
// closed at once; so many are kept, and say one byte now and then.
type flood struct {
	keep    int64
	greeted [][]byte
	stop    chan struct{}
	running sync.WaitGroup
	made    atomic.Int64
}

func floodAt(addr string, keep int64) *flood {
	f := &flood{keep: keep, stop: make(chan struct{})}
	for _, text := range greetings() {
		f.greeted = append(f.greeted, text)
	}
	for range 8 {
		f.running.Go(func() { f.pour(addr) })
	}
	return f
}

func (f *flood) pour(addr string) {
	var kept []net.Conn
	defer func() {
		for _, conn := range kept {
			conn.Close()
		}
	}()
	for {
		select {
		case <-f.stop:
			return
		default:
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			time.Sleep(time.Millisecond) // out of ports, or the listeners are closed
			continue
		}
		n := f.made.Add(1)
		if int64(len(kept)) < f.keep/8 {
			kept = append(kept, conn)
			_, _ = conn.Write([]byte{'g'}) // it may be cut off at once
			continue
		}
		_, _ = conn.Write(f.greeted[n%int64(len(f.greeted))])
		conn.Close()
		_, _ = kept[n%int64(len(kept))].Write([]byte{'o'})
	}
}

func (f *flood) end() {
	close(f.stop)
	f.running.Wait()
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
			f := floodAt(addr.String(), 2000)
			most := before
			for begun := time.Now(); time.Since(begun) < 2*time.Second || f.made.Load() < 10_000 &&
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
			f.end()
			t.Logf("%d connections, %d KiB more, in after %v", f.made.Load(), (most-before)>>10, took)
			check.OK(t, err)
			if limit := 16 << 20; !raceEnabled && most-before > limit {
				t.Errorf("%d bytes more, at most %d are right", most-before, limit)
			}
		})
	}
}
