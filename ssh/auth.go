package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"

	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/sys/cpu"

	"github.com/gorun/gorun/internal/prose"
)

// maxKeys bounds the keys offered to a server: sshd's MaxAuthTries is 6, and each refused key
// counts.
const maxKeys = 6

var errNoMoreKeys = errors.New("no more keys to offer")

// clientConfig returns the SSH library's configuration for a host.
func clientConfig(ctx context.Context, s settings, w *wire, keys *hostKeys, auth *authenticator) *xssh.ClientConfig {
	check := keys.callback(ctx)
	algorithms := xssh.SupportedAlgorithms()
	return &xssh.ClientConfig{
		Config: xssh.Config{
			RekeyThreshold: s.rekey,
			Ciphers:        ciphers(algorithms.Ciphers, hasAES()),
			KeyExchanges:   algorithms.KeyExchanges,
			MACs:           slices.DeleteFunc(algorithms.MACs, func(m string) bool { return m == xssh.HMACSHA1 }),
		},
		User:              s.user,
		ClientVersion:     "SSH-2.0-gorun",
		HostKeyAlgorithms: keys.algorithms(),
		HostKeyCallback: func(name string, remote net.Addr, key xssh.PublicKey) error {
			err := check(name, remote, key)
			if err == nil {
				w.enter(PhaseAuth)
			}
			return err
		},
		BannerCallback: auth.banner,
		AuthCallback:   auth.next,
	}
}

// ciphers puts the fastest authenticated cipher first, which depends on the CPU.
func ciphers(supported []string, aes bool) []string {
	first := xssh.CipherChaCha20Poly1305
	if aes {
		first = xssh.CipherAES128GCM
	}
	list := []string{first}
	for _, c := range supported {
		if c != first {
			list = append(list, c)
		}
	}
	return list
}

func hasAES() bool { return cpu.X86.HasAES || cpu.ARM64.HasAES || cpu.S390X.HasAES }

// Key is a user's key in errors.
type Key struct {
	Source      string // file or agent that has the key
	Type        string // "ssh-ed25519"
	Fingerprint string // "SHA256:…"
	Err         error  // cause of a failed signature; nil if the server refused the key
}

func (k Key) String() string {
	text := k.Source + " (" + k.Type + " " + k.Fingerprint + ")"
	if k.Err != nil {
		text += fmt.Sprintf(": signing: %v", k.Err)
	}
	return text
}

// UnusableKey is a key that could not even be offered.
type UnusableKey struct {
	Source  string
	Reason  string
	Remedy  string // command that makes it usable, or ""
	Missing bool   // whether there is no such file
}

func (k UnusableKey) String() string { return k.Source + ": " + k.Reason }

// authenticator offers keys one by one and records the result of each, for one handshake. It is not
// safe for concurrent use.
type authenticator struct {
	settings settings
	target   Target
	agent    net.Conn // nil without an agent
	stop     func() bool

	ready    bool
	keys     []*signer // keys to offer, in order
	offered  int
	unusable []UnusableKey
	methods  []string    // methods of the server
	partial  bool        // whether the server wants another method after it took a key
	said     *prose.Tail // messages of the server, of which the last has the reason of a refusal
}

// newAuthenticator returns an authenticator that does nothing until the server asks for a key. The
// connection to the agent, which may wait for a person, is closed when ctx ends.
func newAuthenticator(ctx context.Context, s settings, t Target) *authenticator {
	a := &authenticator{
		settings: s,
		target:   t,
		said:     prose.NewTail(maxText),
		stop:     func() bool { return true },
	}
	if s.agent == "" {
		return a
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", s.agent)
	if err != nil {
		a.unusable = append(a.unusable, UnusableKey{
			Source: "agent " + s.agent,
			Reason: err.Error(),
			Remedy: "start an agent: " + runAgent + " && ssh-add (or correct IdentityAgent in the ssh configuration)",
		})
		return a
	}
	a.agent = conn
	a.stop = context.AfterFunc(ctx, func() { conn.Close() })
	return a
}

func (a *authenticator) close() {
	a.stop()
	if a.agent != nil {
		a.agent.Close()
	}
}

func (a *authenticator) banner(text string) error {
	_, err := a.said.Write([]byte(text))
	return err
}

// next is the SSH library's callback: it returns the method to try now.
func (a *authenticator) next(ctx *xssh.ClientAuthContext) (xssh.AuthMethod, error) {
	a.methods = ctx.AllowedMethods
	a.partial = len(ctx.PartialSuccessMethods) > 0
	if !slices.Contains(a.methods, "publickey") {
		return nil, errNoMoreKeys
	}
	if !a.ready {
		a.ready = true
		var unusable []UnusableKey
		a.keys, unusable = collectKeys(a.settings, a.agentSigners())
		a.unusable = append(a.unusable, unusable...)
		if len(a.keys) > maxKeys {
			a.keys = a.keys[:maxKeys]
		}
	}
	if a.offered == len(a.keys) {
		return nil, errNoMoreKeys
	}
	key := a.keys[a.offered]
	a.offered++
	return xssh.PublicKeys(key), nil
}

func (a *authenticator) agentSigners() []xssh.Signer {
	if a.agent == nil {
		return nil
	}
	signers, err := agent.NewClient(a.agent).Signers()
	if err != nil {
		a.unusable = append(a.unusable, UnusableKey{Source: "agent " + a.settings.agent,
			Reason: prose.Printable(err.Error())})
	}
	return signers
}

// installCommand returns the command that installs a key, or, where the server takes no passwords,
// shows the public key to install.
func (a *authenticator) installCommand() string {
	passwords := takesPasswords(a.methods)
	path := a.settings.keyFile(a.keys[:a.offered])
	switch {
	case path == "" && passwords:
		return a.settings.shell("ssh-copy-id")
	case path == "":
		return "ssh-add -L"
	}
	public := prose.Quoted(path + ".pub")
	publish := "" // makes the public key
	if _, err := os.Stat(path + ".pub"); err != nil {
		publish = fmt.Sprintf("ssh-keygen -y -f %s > %s && ", prose.Quoted(path), public)
		if _, err := os.Stat(path); err != nil {
			publish = "ssh-keygen -t ed25519 -f " + prose.Quoted(path) + " && "
		}
	}
	if !passwords {
		return publish + "cat " + public
	}
	return publish + a.settings.shell("ssh-copy-id -i "+public)
}

// keyFile returns the file of the key that an account should have: of the first offered one, or
// without one where a key may be made. It is "" if an agent alone has keys.
func (s settings) keyFile(offered []*signer) string {
	for _, key := range offered {
		if slices.ContainsFunc(s.identityFiles, func(f identityFile) bool { return f.path == key.source }) {
			return key.source
		}
	}
	for _, file := range s.identityFiles {
		if len(offered) == 0 && (file.wanted || filepath.Base(file.path) == "id_ed25519") {
			return file.path
		}
	}
	return ""
}

// failure returns the error of a failed authentication.
func (a *authenticator) failure(err error) error {
	e := &AuthError{
		Target:   a.target,
		User:     a.settings.user,
		Unusable: a.unusable,
		Methods:  a.methods,
		Said:     a.said.String(),
		Partial:  a.partial,
		Install:  a.installCommand(),
	}
	for _, method := range a.settings.others {
		if slices.Contains(a.methods, method) {
			e.Others = append(e.Others, method)
		}
	}
	for _, key := range a.keys[:a.offered] {
		e.Tried = append(e.Tried, key.fact())
	}
	if !errors.Is(err, errNoMoreKeys) {
		e.Err = foreign{err}
	}
	return e
}

// signer is a key to offer. It never signs with SHA-1, and keeps the error if it cannot sign.
type signer struct {
	xssh.AlgorithmSigner
	source string
	err    error
}

// Algorithms implements xssh.MultiAlgorithmSigner.
func (s *signer) Algorithms() []string {
	key := s.PublicKey()
	if cert, ok := key.(*xssh.Certificate); ok {
		key = cert.Key
	}
	if key.Type() == xssh.KeyAlgoRSA {
		return []string{xssh.KeyAlgoRSASHA512, xssh.KeyAlgoRSASHA256}
	}
	return []string{key.Type()}
}

func (s *signer) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*xssh.Signature, error) {
	signature, err := s.AlgorithmSigner.SignWithAlgorithm(rand, data, algorithm)
	s.err = err
	return signature, err
}

func (s *signer) fact() Key {
	key := s.PublicKey()
	return Key{
		Source:      s.source,
		Type:        key.Type(),
		Fingerprint: xssh.FingerprintSHA256(key),
		Err:         s.err,
	}
}
