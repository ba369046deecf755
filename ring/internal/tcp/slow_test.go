package tcp

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Who says nothing, or a byte now and then, has five seconds for all of it.
//
// It is R20 of the fault matrix.
func TestSilentStrangerIsDropped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many seconds")
	}
	t.Parallel()
	f := form(t)
	silent, slow := f.dial(), f.dial()
	begun := time.Now()
	over := make(chan time.Duration, 1)
	go func() {
		for _, err := slow.Write([]byte(magic[:1])); err == nil; _, err = slow.Write([]byte(magic[1:2])) {
			time.Sleep(200 * time.Millisecond) // slow by its nature
		}
		over <- time.Since(begun)
	}()
	nothing(t, silent)
	if took := time.Since(begun); took > shakeTimeout+time.Second {
		t.Errorf("the silent one is dropped after %v", took)
	}
	if took := <-over; took > shakeTimeout+2*time.Second {
		t.Errorf("the slow one is dropped after %v", took)
	}
	f.finish()
}

// While a rank waits for another one, ten thousand connections come that never finish their first word, and stay open at their
// ends. The rank has 256 of them at most, and the other one gets in within 2 s.
//
// It is R20 of the fault matrix.
func TestR20TenThousandHalfOpen(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	many := int(min(10_000, limit.Cur-2*maxStrangers)) // this process is both ends
	f := form(t)
	before := descriptors(t)
	most := 0
	for i := range many {
		conn := f.dial()
		if _, err := conn.Write([]byte(magic[:1+i%len(magic)])); err != nil && !gone(err) {
			t.Fatal(err)
		}
		if i%100 == 0 {
			f.net.lobby.mu.Lock()
			most = max(most, len(f.net.lobby.strangers))
			f.net.lobby.mu.Unlock()
		}
	}
	if held := descriptors(t) - before - many; most > maxStrangers || held > maxStrangers+100 { // some are about to be closed
		t.Errorf("%d strangers of %d at once, %d descriptors for them", most, many, held)
	}
	if most < maxStrangers/2 {
		t.Errorf("only %d of %d were there at once", most, many)
	}
	f.finish()
}

// gone reports that the other end has hung up.
func gone(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF)
}
