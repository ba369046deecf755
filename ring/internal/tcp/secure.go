package tcp

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

// credentials are a key and a certificate that only this rank has, made for one
// communicator and never written anywhere. Nobody signs them: the others know their
// fingerprint.
type credentials struct {
	cert tls.Certificate
	mark Fingerprint
}

func newCredentials() (*credentials, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// Dates have no meaning between ranks whose clocks differ: nobody looks at them.
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return &credentials{cert: cert, mark: sha256.Sum256(der)}, nil
}

// config makes both ends show their certificates, and takes only the one that is
// expected.
func (c *credentials) config(theirs Fingerprint) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{c.cert},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // of authorities and names; the fingerprint says all
		SessionTicketsDisabled: true,
		// Records of full size from the start: these are no web pages.
		DynamicRecordSizingDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 1 {
				mark := sha256.Sum256(state.PeerCertificates[0].Raw)
				if subtle.ConstantTimeCompare(mark[:], theirs[:]) == 1 {
					return nil
				}
			}
			return errors.New("another certificate than the rank has told of")
		},
	}
}

// secure does the TLS handshake on conn, whose other end has proven to hold the job's
// key. The deadline is conn's.
func (c *credentials) secure(conn *wire, theirs Fingerprint, dialing bool) (*tls.Conn, error) {
	role := tls.Server
	if dialing {
		role = tls.Client
	}
	t := role(conn, c.config(theirs))
	return t, t.Handshake()
}
