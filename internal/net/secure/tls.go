package secure

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
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
func (c *Credentials) handshake(conn *wire, theirs Fingerprint, dialing bool) (*tls.Conn, error) {
	role := tls.Server
	if dialing {
		role = tls.Client
	}
	t := role(conn, c.TLS(theirs))
	return t, t.Handshake()
}
