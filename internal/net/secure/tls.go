package secure

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"os"
	"time"
)

// Fingerprint is the SHA-256 of a public key.
type Fingerprint [sha256.Size]byte

// Credentials are a key and a self-signed certificate, kept in memory only. The other end knows the
// key's fingerprint.
type Credentials struct {
	cert        tls.Certificate
	fingerprint Fingerprint
}

// SeedSize is the size of a seed of credentials, in bytes.
const SeedSize = ed25519.SeedSize

// NewSeed returns a random seed.
func NewSeed() []byte {
	seed := make([]byte, SeedSize)
	rand.Read(seed)
	return seed
}

// NewCredentials returns the credentials of a seed, from which the key follows.
func NewCredentials(seed []byte) (*Credentials, error) {
	key := ed25519.NewKeyFromSeed(seed)
	// The other end compares the key only: clocks may differ.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &Credentials{
		cert:        tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		fingerprint: sha256.Sum256(public),
	}, nil
}

// Fingerprint identifies a certificate's key to the other end.
func (c *Credentials) Fingerprint() Fingerprint { return c.fingerprint }

// TLS returns the settings of either end of a connection. They accept only a peer with the key of
// theirs.
func (c *Credentials) TLS(theirs Fingerprint) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{c.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // VerifyConnection compares the key instead
		SessionTicketsDisabled: true,
		// Small first records help interactive use only.
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 1 {
				got := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
				if subtle.ConstantTimeCompare(got[:], theirs[:]) == 1 {
					return nil
				}
			}
			return errors.New("the other end has another key")
		},
	}
}

// handshake does the TLS handshake on conn, under conn's deadline.
func (c *Credentials) handshake(conn *wire, theirs Fingerprint, dialing bool) (*session, error) {
	role := tls.Server
	if dialing {
		role = tls.Client
	}
	meter := &recordMeter{wire: conn}
	t := role(meter, c.TLS(theirs))
	err := t.Handshake()
	meter.data = 0 // the other end sends no more before it has this end's last message
	return &session{Conn: t, meter: meter}, err
}

// session is a TLS connection on which the other end may send nothing but data. TLS allows more:
// sixteen changes of keys, for example, between one byte and the next, of which each takes as long
// as many records of data, and may ask for an answer. Package tls sends none of that by itself.
type session struct {
	*tls.Conn
	meter  *recordMeter
	opened int // bytes of data, modulo 2⁶⁴
}

var errNoData = errors.New("a record of TLS without data, which no rank sends")

// Read fails with os.ErrDeadlineExceeded if it needs more bytes. All records that have come are
// open then, and so one without data is noticed.
func (s *session) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	s.opened += n
	if errors.Is(err, os.ErrDeadlineExceeded) && s.opened != s.meter.data {
		return n, errNoData
	}
	return n, err
}

const (
	tlsHead = 5  // bytes before a record's body; the last two are its length
	tlsSeal = 17 // bytes of a body beside its data: the kind and the seal
	tlsData = 23 // kind of all sealed records; the true one is sealed
)

// recordMeter counts the data that the records of TLS have room for.
type recordMeter struct {
	*wire
	head [tlsHead]byte
	have int // bytes of the next head
	room int // what the current record has room for
	left int // rest of its body
	data int // bytes of data in all whole records, modulo 2⁶⁴, if they have nothing else
}

func (m *recordMeter) Read(b []byte) (int, error) {
	n, err := m.wire.Read(b)
	m.count(b[:n])
	return n, err
}

func (m *recordMeter) count(b []byte) {
	for len(b) > 0 {
		if m.left == 0 {
			n := copy(m.head[m.have:], b)
			b = b[n:]
			if m.have += n; m.have < tlsHead {
				return
			}
			m.have = 0
			m.left = int(binary.BigEndian.Uint16(m.head[tlsHead-2:]))
			m.room = m.left
			if m.head[0] == tlsData {
				m.room = max(1, m.left-tlsSeal) // an empty one is no data either
			}
		}
		n := min(len(b), m.left)
		b = b[n:]
		if m.left -= n; m.left == 0 {
			m.data += m.room
		}
	}
}
