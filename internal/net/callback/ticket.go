// Package callback lets processes that a launcher has started by one command on many hosts connect
// back to it. Both ends know each other by keys: TLS 1.3, pinned by a ticket that travels on the
// processes' standard input.
package callback

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"
)

// Ticket is what a host needs to connect back. Who has it can be any of the hosts, but not the
// launcher.
type Ticket struct {
	Addresses []string `json:"addresses"` // IP addresses of the launcher's machine
	Port      int      `json:"port"`
	Launcher  []byte   `json:"launcher"` // SHA-256 of the launcher's public key
	Seed      []byte   `json:"seed"`     // of the hosts' Ed25519 key
}

// maxTicket bounds the bytes of a ticket.
const maxTicket = 64 << 10

// WriteTo writes the ticket as a line.
func (t Ticket) WriteTo(w io.Writer) (int64, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return 0, err
	}
	n, err := w.Write(append(text, '\n'))
	return int64(n), err
}

// ReadTicket reads a ticket and nothing after its line's end that matters: the rest of r is not to
// be used.
func ReadTicket(r io.Reader) (t Ticket, err error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxTicket)).ReadBytes('\n')
	if err != nil {
		return t, fmt.Errorf("read the ticket: %w", err)
	}
	if err := json.Unmarshal(line, &t); err != nil {
		return t, fmt.Errorf("read the ticket: %w", err)
	}
	if len(t.Launcher) != sha256.Size || len(t.Seed) != ed25519.SeedSize || t.Port <= 0 || t.Port > 65535 {
		return t, errors.New("read the ticket: it lacks a key, or the port")
	}
	return t, nil
}

// identity is a key with its certificate.
type identity struct {
	cert tls.Certificate
	mark [sha256.Size]byte // of the public key
}

func newIdentity(seed []byte) (id identity, err error) {
	key := ed25519.NewKeyFromSeed(seed)
	// The other end compares the key only, so the name and dates do not matter.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return id, fmt.Errorf("make a certificate: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return id, err
	}
	return identity{tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, sha256.Sum256(public)}, nil
}

func newSeed() []byte {
	seed := make([]byte, ed25519.SeedSize)
	rand.Read(seed)
	return seed
}

var errStranger = errors.New("the other end has another key")

// config is of either end, which accepts only a peer with the key that mark belongs to.
func (id identity) config(mark []byte) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{id.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // VerifyConnection compares the key instead
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 1 {
				got := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
				if subtle.ConstantTimeCompare(got[:], mark) == 1 {
					return nil
				}
			}
			return errStranger
		},
	}
}
