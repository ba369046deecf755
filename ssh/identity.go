package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
)

// collector gathers the keys to offer.
type collector struct {
	agent    []xssh.Signer
	unlock   string // command that a locked key's name completes
	certs    []*xssh.Certificate
	keys     []*signer
	unusable []UnusableKey
}

// collectKeys returns the keys to offer, in order: the agent's keys of configured files, the files'
// own keys, and without IdentitiesOnly the agent's other keys. A certificate precedes its key.
func collectKeys(s settings, agent []xssh.Signer) ([]*signer, []UnusableKey) {
	c := &collector{agent: agent, unlock: "ssh-add "}
	if s.agent == "" {
		c.unlock = runAgent + " && ssh-add "
	}
	for _, path := range s.certificateFiles {
		c.readCertificate(path, true)
	}
	files := make([]*keyFile, 0, len(s.identityFiles))
	for _, identity := range s.identityFiles {
		if f := c.readKeyFile(identity); f != nil {
			c.readCertificate(identity.path+"-cert.pub", false)
			files = append(files, f)
		}
	}
	for _, f := range files {
		f.inAgent = c.offerFromAgent(f)
	}
	for _, f := range files {
		c.offerFile(f)
	}
	if !s.identitiesOnly {
		for _, key := range agent {
			c.offer("agent", key)
		}
	}
	return c.keys, c.unusable
}

// keyFile is an existing identity file.
type keyFile struct {
	path    string
	public  xssh.PublicKey // nil if only the encrypted private key has it
	private xssh.Signer    // nil if it is encrypted, refused or missing
	locked  bool           // whether it is encrypted
	problem UnusableKey    // reason why the key is unusable, unless the agent has it
	inAgent bool
}

// readKeyFile reads a private key and its public half, or returns nil if neither exists.
func (c *collector) readKeyFile(identity identityFile) *keyFile {
	f := &keyFile{path: identity.path, problem: UnusableKey{Source: identity.path}}
	f.public = readPublicKey(identity.path + ".pub")
	text, err := readPrivate(identity.path)
	if err != nil {
		if f.public == nil && errors.Is(err, os.ErrNotExist) && !identity.wanted {
			return nil
		}
		f.problem.Reason = err.Error()
		var open *openKeyError
		switch {
		case errors.As(err, &open):
			f.problem.Remedy = "chmod 600 " + prose.Quoted(identity.path)
		case errors.Is(err, os.ErrNotExist):
			f.problem.Missing = true
		}
		return f
	}
	if public, _, _, _, err := xssh.ParseAuthorizedKey(text); err == nil {
		f.public = public // the file holds a public key; the agent has the private half
		f.problem.Reason = "a public key, and no agent holds its private key"
		if private, is := strings.CutSuffix(identity.path, ".pub"); is {
			f.problem.Remedy = "name the private key instead: " + private
		}
		return f
	}
	private, err := xssh.ParsePrivateKey(text)
	var locked *xssh.PassphraseMissingError
	switch {
	case err == nil:
		f.public = private.PublicKey()
		f.private = private
	case errors.As(err, &locked):
		f.locked = true
		f.problem.Reason = "encrypted, and no agent holds it"
		f.problem.Remedy = "unlock the key first: " + c.unlock + prose.Quoted(identity.path)
		if locked.PublicKey != nil {
			f.public = locked.PublicKey
		}
	default:
		f.problem.Reason = err.Error()
	}
	return f
}

// IdentityError reports a file that cannot be a key to log in with.
type IdentityError struct{ UnusableKey }

func (e *IdentityError) Error() string {
	if e.Missing {
		return e.Source + ": no such file"
	}
	return e.String()
}

// Hint returns what makes the file usable, or "".
func (e *IdentityError) Hint() string { return e.Remedy }

// CheckIdentity returns an *IdentityError for a file that is missing, holds no key, or holds a
// private one that others may read, unless the public key is beside it: an agent may have the other
// half.
func CheckIdentity(path string) error {
	f := (&collector{}).readKeyFile(identityFile{path: path, wanted: true})
	if f.public != nil || f.locked {
		return nil
	}
	return &IdentityError{f.problem}
}

// openKeyError reports a private key that others may read.
type openKeyError struct{ mode os.FileMode }

func (e *openKeyError) Error() string { return fmt.Sprintf("others may read it (mode %04o)", e.mode) }

// runAgent is the shell command that starts an agent.
const runAgent = `eval "$(ssh-agent)"`

// maxKey is the largest size of a key file in bytes.
const maxKey = 1 << 20

// readPrivate reads a key file. Like ssh it refuses one that others may read.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	secret := !strings.HasSuffix(path, ".pub")
	if ok && secret && int(owner.Uid) == os.Getuid() && info.Mode().Perm()&0o077 != 0 {
		return nil, &openKeyError{info.Mode().Perm()}
	}
	return trust.ReadFile(path, maxKey)
}

func readPublicKey(path string) xssh.PublicKey {
	text, err := trust.ReadFile(path, maxKey)
	if err != nil {
		return nil
	}
	key, _, _, _, err := xssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil
	}
	return key
}

// readCertificate adds a user certificate. A missing one is reported only if the configuration
// names it.
func (c *collector) readCertificate(path string, wanted bool) {
	if cert, ok := readPublicKey(path).(*xssh.Certificate); ok {
		c.certs = append(c.certs, cert)
	} else if wanted {
		c.unusable = append(c.unusable, UnusableKey{Source: path, Reason: "not a certificate"})
	}
}

// offerFromAgent offers the agent's key for a file, and reports whether it has it.
func (c *collector) offerFromAgent(f *keyFile) bool {
	if f.public == nil {
		return false
	}
	found := false
	for _, key := range c.agent {
		public := key.PublicKey()
		if cert, ok := public.(*xssh.Certificate); ok {
			public = cert.Key
		}
		if sameKey(public, f.public) {
			c.offer("agent, for "+f.path, key)
			found = true
		}
	}
	return found
}

func (c *collector) offerFile(f *keyFile) {
	if f.private != nil {
		c.offer(f.path, f.private)
	} else if !f.inAgent {
		c.unusable = append(c.unusable, f.problem)
	}
}

// offer adds a key behind the certificates for it, unless it is there already.
func (c *collector) offer(source string, key xssh.Signer) {
	for _, cert := range c.certs {
		if sameKey(cert.Key, key.PublicKey()) {
			if certified, err := xssh.NewCertSigner(cert, key); err == nil {
				c.add(source+" with certificate", certified)
			}
		}
	}
	c.add(source, key)
}

func (c *collector) add(source string, key xssh.Signer) {
	for _, k := range c.keys {
		if sameKey(k.PublicKey(), key.PublicKey()) {
			return
		}
	}
	if able, ok := key.(xssh.AlgorithmSigner); ok {
		c.keys = append(c.keys, &signer{AlgorithmSigner: able, source: source})
	}
}

func sameKey(a, b xssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }
