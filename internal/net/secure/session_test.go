package secure

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// Kinds of records of TLS.
const (
	changeCipher = 20
	alert        = 21
	handshake    = 22
)

// sealer makes records of TLS 1.3, also those that package tls never sends.
type sealer struct {
	secret []byte
	iv     []byte
	aead   cipher.AEAD
	count  uint64 // records under this key
}

// derive is HKDF-Expand-Label of RFC 8446, section 7.1, without a context.
func derive(t *testing.T, secret []byte, label string, size int) []byte {
	t.Helper()
	info := binary.BigEndian.AppendUint16(nil, uint16(size))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(info, "tls13 "+label+"\x00"...)
	return must.Get(hkdf.Expand(sha256.New, secret, string(info), size))(t)
}

// use makes secret the one of the next records.
func (s *sealer) use(t *testing.T, secret []byte) {
	t.Helper()
	s.secret = secret
	s.iv = derive(t, secret, "iv", 12)
	s.aead = must.Get(cipher.NewGCM(must.Get(aes.NewCipher(derive(t, secret, "key", 16)))(t)))(t)
	s.count = 0
}

func (s *sealer) seal(kind byte, data ...byte) []byte {
	body := append(slices.Clone(data), kind)
	head := []byte{tlsData, 3, 3, 0, byte(len(body) + s.aead.Overhead())}
	nonce := slices.Clone(s.iv)
	binary.BigEndian.PutUint64(nonce[4:], s.count^binary.BigEndian.Uint64(nonce[4:]))
	s.count++
	return s.aead.Seal(head, nonce, body, head)
}

// rekey changes the keys, and asks the other end to do the same if ask is 1.
func (s *sealer) rekey(t *testing.T, ask byte) []byte {
	t.Helper()
	record := s.seal(handshake, 24, 0, 0, 1, ask)
	s.use(t, derive(t, s.secret, "traffic upd", sha256.Size))
	return record
}

// hostilePair is a connection whose one end makes records of TLS by itself, and writes them to the
// wire that comes with it.
func hostilePair(t *testing.T) (from *sealer, to *wire, receiver *Conn) {
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
	if client.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("the processor has no AES, so package tls chooses another cipher")
	}
	must.OK(t, receiver.Own())
	t.Cleanup(func() { receiver.Close() })
	receiver.detach()
	from = &sealer{}
	for line := range bytes.Lines(secrets.Bytes()) {
		if words := bytes.Fields(line); string(words[0]) == "CLIENT_TRAFFIC_SECRET_0" {
			from.use(t, must.Get(hex.DecodeString(string(words[2])))(t))
		}
	}
	return from, to, receiver
}

// A rank that sends other records than data makes others neither compute without end nor keep
// answers to it. Data may come in records of any size.
func TestRecordsOfTLSHaveData(t *testing.T) {
	const rounds = 2000 // bytes of data, with 16 other records before each, as package tls allows
	for name, other := range map[string]func(*sealer) []byte{
		"data":                   nil,
		"change of both keys":    func(s *sealer) []byte { return s.rekey(t, 1) },
		"change of one key":      func(s *sealer) []byte { return s.rekey(t, 0) },
		"no data":                func(s *sealer) []byte { return s.seal(tlsData) },
		"padding":                func(s *sealer) []byte { return s.seal(0, tlsData, 0, 0) },
		"alert":                  func(s *sealer) []byte { return s.seal(alert, 1, 90) },
		"change of cipher specs": func(*sealer) []byte { return []byte{changeCipher, 3, 3, 0, 1, 1} },
	} {
		t.Run(name, func(t *testing.T) {
			from, to, receiver := hostilePair(t)
			var said []byte
			for range rounds {
				for i := 0; i < 16 && other != nil; i++ {
					said = append(said, other(from)...)
				}
				said = append(said, from.seal(tlsData, 'x')...)
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
