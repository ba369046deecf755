package secure

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// A peer that sends nothing, or a byte now and then, is closed when its handshake times
// out. R20 of the fault matrix.
func TestSlowHandshakeTimesOut(t *testing.T) {
	must.HaveTime(t)
	f := formWithin(t, time.Second)
	silent := f.dial()
	slow := f.dial()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, err := slow.Write([]byte(magic[:1])); err == nil; _, err = slow.Write([]byte(magic[1:2])) {
			time.Sleep(20 * time.Millisecond)
		}
	}()
	nothing(t, silent)
	<-closed // else the test times out
	f.finish()
}

// flood opens many connections that never finish their hello and stay open. It returns
// how many, and the largest number of them that was pending at once.
func flood(f *forming) (many, most int) {
	var limit unix.Rlimit
	must.OK(f.t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	many = int(min(10_000, limit.Cur-2*admit.MaxPending)) // this process holds both ends
	for i := range many {
		conn := f.dial()
		_, err := conn.Write([]byte(magic[:1+i%len(magic)]))
		must.That(f.t, err == nil || disconnected(err), "%v", err)
		if i%100 == 0 {
			most = max(most, f.endpoint.acceptor.pending.Len())
		}
	}
	return many, most
}

// While a rank waits for another one, ten thousand half-open connections arrive. The rank
// holds 256 of them at most, and the other rank joins. R20 of the fault matrix.
func TestTenThousandHalfOpenConnections(t *testing.T) {
	must.HaveTime(t)
	f := formWithin(t, time.Hour) // none ends by its timeout
	before := descriptors(t)
	many, most := flood(f)
	check.That(t, most >= admit.MaxPending/2 && most <= admit.MaxPending, "%d of %d are pending at once", most, many)
	must.Until(t, "the end of evicted connections", func() bool {
		return descriptors(t)-before-many <= admit.MaxPending+10
	})
	f.finish()
}

// BenchmarkJoinInFlood measures how long a rank takes to join beside ten thousand
// half-open connections. It must stay below 2 s: R20 of the fault matrix.
func BenchmarkJoinInFlood(b *testing.B) {
	for range b.N {
		b.StopTimer()
		f := form(b)
		flood(f)
		b.StartTimer()
		f.finish()
	}
	if took := b.Elapsed() / time.Duration(b.N); took > 2*time.Second {
		b.Errorf("joining took %v", took)
	}
}

func descriptors(t testing.TB) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		lab.Skip(t, "no /proc/self/fd here")
	}
	return len(list)
}

// disconnected reports whether err means that the other end has hung up.
func disconnected(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF)
}
