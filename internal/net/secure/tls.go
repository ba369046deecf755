package secure

import (
	"crypto/ecdsa"
	"crypto/elliptic"
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

// Fingerprint is the SHA-256 of a rank's certificate.
type Fingerprint [sha256.Size]byte

// Credentials are a key and a self-signed certificate for one communicator, kept in
// memory only. The other ranks know the certificate's fingerprint.
type Credentials struct {
	cert tls.Certificate
	mark Fingerprint
}

// NewCredentials makes a key and a certificate for it.
func NewCredentials() (*Credentials, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// The peers ignore dates, as clocks may differ.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return &Credentials{cert: cert, mark: sha256.Sum256(der)}, nil
}

// Fingerprint is what the others must know of the certificate.
func (c *Credentials) Fingerprint() Fingerprint { return c.mark }

// config requires certificates of both ends, and accepts only the expected one.
func (c *Credentials) config(theirs Fingerprint) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{c.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // VerifyConnection compares the fingerprint instead
		SessionTicketsDisabled: true,
		// Small first records help interactive use only.
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 1 {
				mark := sha256.Sum256(state.PeerCertificates[0].Raw)
				if subtle.ConstantTimeCompare(mark[:], theirs[:]) == 1 {
					return nil
				}
			}
			return errors.New("certificate differs from the one that the rank published")
		},
	}
}

// handshake does the TLS handshake on conn, under conn's deadline.
func (c *Credentials) handshake(conn *wire, theirs Fingerprint, dialing bool) (*tls.Conn, error) {
	role := tls.Server
	if dialing {
		role = tls.Client
	}
	t := role(conn, c.config(theirs))
	return t, t.Handshake()
}
