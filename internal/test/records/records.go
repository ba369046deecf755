// Package records makes records of TLS 1.3 by itself, also those that package tls never sends.
package records

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

// Kinds of records.
const (
	ChangeCipher = 20
	Alert        = 21
	Handshake    = 22
	Data         = 23 // and the outer kind of all sealed ones
)

// Sealer takes the place of a client that has done the handshake.
type Sealer struct {
	t      testing.TB
	secret []byte
	iv     []byte
	aead   cipher.AEAD
	sealed uint64 // records under this key
}

// Take returns a sealer in the place of a client that has sent so many records since the handshake.
// secrets is what the client's KeyLogWriter got.
func Take(t testing.TB, client *tls.Conn, secrets []byte, sent uint64) *Sealer {
	t.Helper()
	if client.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("the processor has no AES, so package tls chooses another cipher")
	}
	s := &Sealer{t: t}
	for line := range bytes.Lines(secrets) {
		if words := bytes.Fields(line); string(words[0]) == "CLIENT_TRAFFIC_SECRET_0" {
			s.use(must.Get(hex.DecodeString(string(words[2])))(t))
		}
	}
	s.sealed = sent
	return s
}

// derive is HKDF-Expand-Label of RFC 8446, section 7.1, without a context.
func (s *Sealer) derive(label string, size int) []byte {
	s.t.Helper()
	info := binary.BigEndian.AppendUint16(nil, uint16(size))
	info = append(info, byte(len("tls13 ")+len(label)))
	info = append(info, "tls13 "+label+"\x00"...)
	return must.Get(hkdf.Expand(sha256.New, s.secret, string(info), size))(s.t)
}

// use makes secret the one of the next records.
func (s *Sealer) use(secret []byte) {
	s.t.Helper()
	s.secret = secret
	s.iv = s.derive("iv", 12)
	s.aead = must.Get(cipher.NewGCM(must.Get(aes.NewCipher(s.derive("key", 16)))(s.t)))(s.t)
	s.sealed = 0
}

// Seal makes a record of up to 100 bytes.
func (s *Sealer) Seal(kind byte, data ...byte) []byte {
	body := append(slices.Clone(data), kind)
	head := []byte{Data, 3, 3, 0, byte(len(body) + s.aead.Overhead())}
	nonce := slices.Clone(s.iv)
	binary.BigEndian.PutUint64(nonce[4:], s.sealed^binary.BigEndian.Uint64(nonce[4:]))
	s.sealed++
	return s.aead.Seal(head, nonce, body, head)
}

// Rekey changes the keys, and asks the other end to do the same if ask is 1.
func (s *Sealer) Rekey(ask byte) []byte {
	s.t.Helper()
	record := s.Seal(Handshake, 24, 0, 0, 1, ask)
	s.use(s.derive("traffic upd", sha256.Size))
	return record
}
