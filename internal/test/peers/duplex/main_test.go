package main

import (
	"net"
	"strings"
	"testing"
)

// pair is both ends of a connection.
func pair(t *testing.T) [2]net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	first, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	second, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Close(); second.Close() })
	return [2]net.Conn{first, second}
}

func TestBothEndsExchange(t *testing.T) {
	const high = 1 << 20
	conns := pair(t)
	failed := make(chan error, 1)
	go func() {
		other := newEnd(conns[1], high)
		defer other.close()
		for _, size := range []int{4, inline, high} {
			if _, err := other.measure(size, false); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	e := newEnd(conns[0], high)
	defer e.close()
	for _, size := range []int{4, inline, high} {
		if us, err := e.measure(size, true); err != nil || us <= 0 {
			t.Errorf("%d bytes: %v µs, %v", size, us, err)
		}
	}
	if err := <-failed; err != nil {
		t.Error(err)
	}
}

func TestOtherBytesAreSeen(t *testing.T) {
	conns := pair(t)
	other := newEnd(conns[1], 8)
	defer other.close()
	other.out[5]++
	e := newEnd(conns[0], 8)
	defer e.close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = other.measure(8, false) // its own half is as wrong
	}()
	if _, err := e.measure(8, true); err == nil || !strings.Contains(err.Error(), "other bytes") {
		t.Errorf("%v", err)
	}
	<-done
}

func TestTheOtherEndGoes(t *testing.T) {
	conns := pair(t)
	e := newEnd(conns[0], 1<<20)
	defer e.close()
	conns[1].Close()
	if err := e.swap(1 << 20); err == nil {
		t.Error("an exchange with nobody is no error")
	}
	if err := run([]string{"listen"}); err == nil || !strings.Contains(err.Error(), "usage") {
		t.Errorf("%v", err)
	}
}
