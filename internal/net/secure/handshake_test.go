package secure

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// recorder keeps the bytes written through it.
type recorder struct {
	io.ReadWriter
	sent bytes.Buffer
}

func (r *recorder) Write(b []byte) (int, error) {
	r.sent.Write(b)
	return r.ReadWriter.Write(b)
}

// tape plays one side of a handshake regardless of the other side.
type tape struct{ io.Reader }

func (tape) Write(b []byte) (int, error) { return len(b), nil }

// constant is a source of equal nonces, so that a recording is valid again.
type constant byte

func (c constant) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(c)
	}
	return len(b), nil
}

// record does one handshake with fixed nonces, and returns both handshakers and each side's
// bytes.
func record(t testing.TB) (dialer, acceptor *handshaker, dialed, accepted []byte) {
	dialer = handshakerOf(t, identity(0, 2))
	acceptor = handshakerOf(t, identity(1, 2))
	dialer.random = constant(1)
	acceptor.random = constant(2)
	here, there := net.Pipe()
	here.SetDeadline(time.Now().Add(handshakeTimeout))
	there.SetDeadline(time.Now().Add(handshakeTimeout))
	a := &recorder{ReadWriter: here}
	b := &recorder{ReadWriter: there}
	failed := make(chan error, 1)
	go func() {
		_, err := acceptor.accept(b, everyone)
		failed <- err
	}()
	must.OK(t, errors.Join(dialer.dial(a, 1, 0), <-failed))
	return dialer, acceptor, a.sent.Bytes(), b.sent.Bytes()
}

func everyone(slot) bool { return true }

// FuzzHandshake changes one side's bytes of a valid handshake. With the same nonces only the
// unchanged recording is accepted.
//
// It is R22 of the fault matrix.
func FuzzHandshake(f *testing.F) {
	dialer, acceptor, dialed, accepted := record(f)
	f.Add([]byte{}, uint16(0), uint16(0), true)
	f.Add([]byte{1}, uint16(10), uint16(0), true)                     // another purpose
	f.Add([]byte{1}, uint16(11), uint16(0), true)                     // another stripe
	f.Add([]byte{0xff}, uint16(helloSize), uint16(0), true)           // MAC of the hello
	f.Add([]byte{1}, uint16(helloSize+macSize), uint16(0), true)      // proof
	f.Add([]byte{}, uint16(0), uint16(1), true)                       // cut short
	f.Add([]byte{1, 2, 3}, uint16(36), uint16(0), false)              // ranks
	f.Add([]byte{1}, uint16(helloSize), uint16(0), false)             // acceptor's MAC
	f.Add([]byte{1}, uint16(helloSize+macSize), uint16(0), false)     // its last message
	f.Add([]byte{0x80}, uint16(helloSize+2*macSize), uint16(3), true) // past the end
	f.Fuzz(func(t *testing.T, change []byte, at, cut uint16, dialing bool) {
		said := accepted
		if dialing {
			said = dialed
		}
		altered := bytes.Clone(said)
		for i, b := range change {
			if int(at)+i < len(altered) {
				altered[int(at)+i] ^= b
			}
		}
		altered = altered[:len(altered)-min(int(cut), len(altered))]
		var err error
		if dialing {
			_, err = acceptor.accept(tape{bytes.NewReader(altered)}, everyone)
		} else {
			err = dialer.dial(tape{bytes.NewReader(altered)}, 1, 0)
		}
		same := bytes.Equal(altered, said)
		check.That(t, same == (err == nil), "unchanged is %v, but the handshake ends with %v", same, err)
	})
}

// It is R22 of the fault matrix.
func FuzzHello(f *testing.F) {
	_, _, dialed, accepted := record(f)
	f.Add(dialed[:helloSize])
	f.Add(accepted[:helloSize])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHello(b)
		if err == nil && !bytes.Equal(h.encode(), b) {
			t.Errorf("%x decodes to %+v, which encodes to %x", b, h, h.encode())
		}
	})
}

// The dialer refuses an acceptor that is another rank than the dialed one, even if it has
// the key.
func TestDialerChecksWhoAnswers(t *testing.T) {
	here, there := net.Pipe()
	here.SetDeadline(time.Now().Add(handshakeTimeout))
	there.SetDeadline(time.Now().Add(handshakeTimeout))
	defer here.Close()
	go func() {
		defer there.Close()
		s := handshakerOf(t, identity(2, 3))
		script := make([]byte, helloSize+macSize)
		mine, err := s.hello(0, 0)
		keys, kerr := s.keys(0)
		if _, rerr := io.ReadFull(there, script); rerr != nil || kerr != nil || err != nil {
			t.Error(rerr, kerr, err)
		}
		answer := mine.encode()
		there.Write(append(answer, mac(keys.join, 2, append(script, answer...))...))
	}()
	err := handshakerOf(t, identity(0, 3)).dial(here, 1, 0)
	check.That(t, err == ErrRefused, "rank 2 in place of rank 1: %v, want a refusal", err)
}
