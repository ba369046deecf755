package secure

import (
	"bytes"
	"crypto/tls"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/records"
)

// hostilePair is a connection whose one end makes records of TLS by itself, and writes them to the
// wire that comes with it.
func hostilePair(t *testing.T) (from *records.Sealer, to *wire, receiver *Conn) {
	t.Helper()
	zero := newTestCredentials(t)
	one := newTestCredentials(t)
	near, far := lab.TCPPair(t)
	receiver = &Conn{TCPConn: near}
	done := make(chan error, 1)
	go func() {
		w := newWire(near)
		s, err := zero.handshake(w, one.Fingerprint(), false)
		receiver.guard = &guard{layer: s, wire: w}
		done <- err
	}()
	var secrets bytes.Buffer
	config := one.TLS(zero.Fingerprint())
	config.KeyLogWriter = &secrets
	to = newWire(far)
	client := tls.Client(to, config)
	must.OK(t, errors.Join(client.Handshake(), <-done))
	must.OK(t, receiver.Own())
	t.Cleanup(func() { receiver.Close() })
	receiver.detach()
	return records.Take(t, client, secrets.Bytes(), 0), to, receiver
}

// A rank that sends other records than data makes others neither compute without end nor keep
// answers to it. Data may come in records of any size.
func TestRecordsOfTLSHaveData(t *testing.T) {
	const rounds = 2000 // bytes of data, with 16 other records before each, as package tls allows
	for name, other := range map[string]func(*records.Sealer) []byte{
		"data":                   nil,
		"change of both keys":    func(s *records.Sealer) []byte { return s.Rekey(1) },
		"change of one key":      func(s *records.Sealer) []byte { return s.Rekey(0) },
		"no data":                func(s *records.Sealer) []byte { return s.Seal(records.Data) },
		"padding":                func(s *records.Sealer) []byte { return s.Seal(0, records.Data, 0, 0) },
		"alert":                  func(s *records.Sealer) []byte { return s.Seal(records.Alert, 1, 90) },
		"change of cipher specs": func(*records.Sealer) []byte { return []byte{records.ChangeCipher, 3, 3, 0, 1, 1} },
	} {
		t.Run(name, func(t *testing.T) {
			from, to, receiver := hostilePair(t)
			var said []byte
			for range rounds {
				for i := 0; i < 16 && other != nil; i++ {
					said = append(said, other(from)...)
				}
				said = append(said, from.Seal(records.Data, 'x')...)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = to.Write(said) // fails once the receiver has closed
			}()
			came := 0
			var err error
			for b := make([]byte, 512); came < rounds && (err == nil || err == unix.EAGAIN); {
				if err == unix.EAGAIN {
					poll(t, receiver.FD)
				}
				var n int
				n, err = receiver.Recv(b)
				came += n
			}
			if other == nil {
				check.That(t, came == rounds, "%d bytes came, %v", came, err)
			} else {
				check.That(t, errors.Is(err, ErrChanged), "%d bytes came, %v", came, err)
			}
			kept := len(receiver.guard.wire.out)
			check.That(t, kept <= wireRoom*2, "%d bytes wait to be sent", kept)
			receiver.Close()
			<-done
		})
	}
}

// poll waits until a socket has something.
func poll(t *testing.T, fd int) {
	t.Helper()
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err == unix.EINTR {
			continue
		}
		must.OK(t, err)
		return
	}
}
