package lab

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"os"
	"strings"

	xssh "golang.org/x/crypto/ssh"
)

// newKey writes a new private key of the kind (ed25519, ecdsa or rsa) to path
// and returns the public one as authorized_keys and known_hosts write it,
// without a comment.
func newKey(kind, path string) (string, error) {
	private, err := generate(kind)
	if err != nil {
		return "", fmt.Errorf("making a %s key: %w", kind, err)
	}
	block, err := xssh.MarshalPrivateKey(private, "")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		return "", err
	}
	signer, err := xssh.NewSignerFromKey(private)
	if err != nil {
		return "", err
	}
	public := string(xssh.MarshalAuthorizedKey(signer.PublicKey()))
	return strings.TrimSpace(public), nil
}

func generate(kind string) (crypto.PrivateKey, error) {
	switch kind {
	case "ed25519":
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	case "ecdsa":
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "rsa":
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return nil, fmt.Errorf("unknown kind of key %q", kind)
}
