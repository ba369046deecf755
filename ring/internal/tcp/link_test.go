package tcp

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"
)

func payload(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7 >> 3)
	}
	return b
}

// Both sides send much more than sockets hold before they receive.
func TestBothSendFirst(t *testing.T) {
	a, b := pair(t)
	defer a.Close()
	out := payload(16 << 20)
	other := make(chan error, 1)
	work := func(l *Link) error {
		in := make([]byte, len(out))
		l.Send(out)
		if err := l.Recv(in); err != nil {
			return err
		}
		if !bytes.Equal(in, out) {
			return errors.New("other bytes than were sent")
		}
		return l.Flush()
	}
	go func() { other <- work(b) }()
	if err := work(a); err != nil {
		t.Error(err)
	}
	if err := <-other; err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestClosedLink(t *testing.T) {
	a, b := pair(t)
	defer a.Close()
	b.Send([]byte("bye"))
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 3)
	if err := a.Recv(got); err != nil || string(got) != "bye" {
		t.Errorf("received %q, %v", got, err)
	}
	if err := a.Recv(got); !errors.Is(err, ErrClosed) {
		t.Errorf("received after the end: %v", err)
	}
}

func TestInterrupt(t *testing.T) {
	a, b := pair(t)
	defer b.Close()
	a.Send(payload(16 << 20)) // nobody receives it
	failed := make(chan error, 1)
	go func() { failed <- a.Recv(make([]byte, 1)) }()
	start := time.Now()
	a.Interrupt()
	if err := <-failed; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("receiving: %v", err)
	}
	if err := a.Flush(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("sending: %v", err)
	}
	a.Send([]byte("more"))
	if err := a.Flush(); err == nil {
		t.Error("an interrupted link works again")
	}
	a.Close()
	if took := time.Since(start); took > time.Second {
		t.Errorf("took %v", took)
	}
}

func TestPending(t *testing.T) {
	a, b := pair(t)
	defer a.Close()
	defer b.Close()
	got := make([]byte, 4)
	if a.Pending(got) {
		t.Error("something is pending on a new link")
	}
	b.Send([]byte("last" + "words"))
	if err := b.Flush(); err != nil {
		t.Fatal(err)
	}
	a.Interrupt()
	for deadline := time.Now().Add(5 * time.Second); !a.Pending(got) && time.Now().Before(deadline); {
		runtime.Gosched()
	}
	if string(got) != "last" {
		t.Errorf("pending %q", got)
	}
}

func TestNoAllocation(t *testing.T) {
	a, b := pair(t)
	defer a.Close()
	defer b.Close()
	const runs = 100
	for _, n := range []int{1, 64 << 10, 8 << 20} {
		out, in, echo := payload(n), make([]byte, n), make([]byte, n)
		done := make(chan error, 1)
		go func() {
			var err error
			for i := 0; i <= runs && err == nil; i++ {
				b.Send(out)
				if err = b.Recv(echo); err == nil {
					err = b.Flush()
				}
			}
			done <- err
		}()
		allocated := testing.AllocsPerRun(runs, func() {
			a.Send(out)
			if err := errors.Join(a.Recv(in), a.Flush()); err != nil {
				panic(err)
			}
		})
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if allocated > 0 {
			t.Errorf("%d bytes: %v allocations a message", n, allocated)
		}
	}
}
