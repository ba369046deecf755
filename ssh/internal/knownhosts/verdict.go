package knownhosts

import (
	"bytes"
	"errors"
	"slices"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// Verdict is what entries say of a key.
type Verdict int

const (
	IsUnknown   Verdict = iota // no entry has a key of the host
	IsKnown                    // an entry has the key, or an authority that has signed it
	IsChanged                  // entries have only other keys
	IsRevoked                  // an entry revokes the key, or the authority that has signed it
	IsUncertain                // an authority of the host has signed the certificate, which is not valid for it now
)

// Judgement is a verdict and its reasons.
type Judgement struct {
	Verdict Verdict
	Entries []Entry // entries that revoke the key or have other keys
	Err     error   // fault of the certificate
}

// Judge decides on the key that a host has shown, by the entries that match the host. principal is
// the host's name as certificates have it. A certificate that is no proof still leaves the key in
// it, which may be known by itself; a revoked one does not.
func Judge(entries []Entry, key xssh.PublicKey, principal string, now time.Time) Judgement {
	if revoked := filter(entries, func(e Entry) bool {
		return e.Marker == Revoked && revokes(e.Key, key)
	}); len(revoked) > 0 {
		return Judgement{Verdict: IsRevoked, Entries: revoked}
	}
	cert, certified := key.(*xssh.Certificate)
	if !certified {
		return judgePlain(entries, key)
	}
	err := checkCertificate(entries, cert, principal, now)
	if err == nil {
		return Judgement{Verdict: IsKnown}
	}
	plain := judgePlain(entries, cert.Key)
	if plain.Verdict != IsKnown && signedBy(entries, cert) {
		return Judgement{Verdict: IsUncertain, Err: err}
	}
	return plain
}

func judgePlain(entries []Entry, key xssh.PublicKey) Judgement {
	others := filter(entries, func(e Entry) bool { return e.Marker == Key })
	switch {
	case slices.ContainsFunc(others, func(e Entry) bool { return same(e.Key, key) }):
		return Judgement{Verdict: IsKnown}
	case len(others) > 0:
		return Judgement{Verdict: IsChanged, Entries: others}
	}
	return Judgement{}
}

// checkCertificate returns why a certificate does not prove that its key is the host's, or nil.
func checkCertificate(entries []Entry, cert *xssh.Certificate, principal string, now time.Time) error {
	switch {
	case !signedBy(entries, cert):
		return errors.New("no authority of the host has signed it")
	case cert.CertType != xssh.HostCert:
		return errors.New("it is not a host's certificate")
	case cert.Signature.Format == xssh.KeyAlgoRSA || cert.Signature.Format == "ssh-dss":
		return errors.New("it is signed with SHA-1")
	}
	checker := xssh.CertChecker{Clock: func() time.Time { return now }}
	return checker.CheckCert(principal, cert)
}

func signedBy(entries []Entry, cert *xssh.Certificate) bool {
	return slices.ContainsFunc(entries, func(e Entry) bool {
		return e.Marker == Authority && same(e.Key, cert.SignatureKey)
	})
}

// revokes reports whether the revocation of one key ends the trust in another: it is the same, a
// certificate for it, or one that it has signed.
func revokes(revoked, key xssh.PublicKey) bool {
	if cert, certified := key.(*xssh.Certificate); certified {
		return same(revoked, cert) || same(revoked, cert.Key) || same(revoked, cert.SignatureKey)
	}
	return same(revoked, key)
}

func same(a, b xssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

func filter(entries []Entry, keep func(Entry) bool) (kept []Entry) {
	for _, e := range entries {
		if keep(e) {
			kept = append(kept, e)
		}
	}
	return kept
}
