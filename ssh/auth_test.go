package ssh

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// startAgent serves an agent with the keys on a socket, until the test ends.
func startAgent(t *testing.T, private ...any) (socket string) {
	t.Helper()
	ring := agent.NewKeyring()
	for _, key := range private {
		must.OK(t, ring.Add(agent.AddedKey{PrivateKey: key}))
	}
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
	must.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	l := must.Get(net.Listen("unix", socket))(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { agent.ServeAgent(ring, conn); conn.Close() }()
		}
	}()
	return socket
}

func newPrivate(t *testing.T) (ed25519.PrivateKey, xssh.Signer) {
	t.Helper()
	_, private := must.GetTwo(ed25519.GenerateKey(rand.Reader))(t)
	signer := must.Get(xssh.NewSignerFromKey(private))(t)
	return private, signer
}

func publicLine(key xssh.Signer) string { return string(xssh.MarshalAuthorizedKey(key.PublicKey())) }

func TestAuthTellsWhatWasTried(t *testing.T) {
	_, files := newServer(t, func(s *server) {
		s.config.BannerCallback = func(xssh.ConnMetadata) string { return "Account \x1b[1mlocked\n" }
	})
	wrong := writeKey(t, files.identity)
	writeKey(t, filepath.Join(files.dir, "locked"), "secret")
	open := filepath.Join(files.dir, "open")
	writeKey(t, open)
	os.Chmod(open, 0o644)
	writeFile(t, filepath.Join(files.dir, "junk"), "no key")
	config := files.Config()
	for _, name := range []string{"locked", "open", "junk", "missing"} {
		config.IdentityFiles = append(config.IdentityFiles, filepath.Join(files.dir, name))
	}
	_, err := Dial(t.Context(), config)
	var auth *AuthError
	must.That(t, errors.As(err, &auth), "err is %v", err)
	check.That(t, len(auth.Tried) == 1 && auth.Tried[0].Fingerprint == xssh.FingerprintSHA256(wrong.PublicKey()) &&
		auth.Tried[0].Source == files.identity,
		"tried %v", auth.Tried)
	check.That(t, len(auth.Unusable) == 4 && auth.Unusable[0].Remedy != "", "unusable %v", auth.Unusable)
	for _, word := range []string{"someone", "SHA256:", "encrypted", "others may read it (mode 0644)", "missing",
		`Account ?[1mlocked`} {
		check.That(t, strings.Contains(strings.ReplaceAll(err.Error(), `\\`, `\`), word),
			"%q does not say %q", err, word)
	}
	check.That(t, !strings.ContainsRune(err.Error(), 0x1b), "control bytes in %q", err)
	assertHint(t, err, "ssh-add "+filepath.Join(files.dir, "locked"))
}

func TestAuthWithoutKeys(t *testing.T) {
	_, files := newServer(t)
	os.Remove(files.identity)
	_, err := Dial(t.Context(), files.Config())
	var auth *AuthError
	must.That(t, errors.As(err, &auth) && len(auth.Tried) == 0 && len(auth.Methods) == 1, "err is %v", err)
	assertHint(t, err, "make a key", "ssh-keygen -t ed25519 -f "+files.identity+" && cat "+files.identity+".pub",
		"authorized_keys of someone")
}

func TestAuthPasswordOnly(t *testing.T) {
	_, files := newServer(t, func(s *server) {
		s.config.PublicKeyCallback = nil
		s.config.PasswordCallback = func(xssh.ConnMetadata, []byte) (*xssh.Permissions, error) {
			panic("a password was offered")
		}
	})
	_, err := Dial(t.Context(), files.Config())
	var auth *AuthError
	must.That(t, errors.As(err, &auth) && len(auth.Tried) == 0 && strings.Contains(err.Error(), "takes only password"),
		"err is %v", err)
	assertHint(t, err, "PubkeyAuthentication")
}

func TestAuthByAgent(t *testing.T) {
	private, signer := newPrivate(t)
	s, files := newServer(t, func(s *server) {
		s.config.PublicKeyCallback = func(_ xssh.ConnMetadata, key xssh.PublicKey) (*xssh.Permissions, error) {
			if !sameKey(key, signer.PublicKey()) {
				return nil, errors.New("no")
			}
			return nil, nil
		}
	})
	socket := startAgent(t, private)
	files.write(t, s, "IdentityAgent "+socket, "IdentitiesOnly no")
	dialTest(t, files)

	t.Setenv("SSH_AUTH_SOCK", socket)
	files.write(t, s, "IdentityAgent SSH_AUTH_SOCK", "IdentitiesOnly no")
	dialTest(t, files)

	files.write(t, s, "IdentityAgent "+socket, "IdentitiesOnly yes")
	var auth *AuthError
	check.Error(Dial(t.Context(), files.Config())).As(t, &auth, "IdentitiesOnly, but the agent's key was offered")
	writeFile(t, files.identity+".pub", publicLine(signer))
	os.Remove(files.identity)
	dialTest(t, files) // the file names the agent's key

	files.write(t, s, "IdentityAgent /nonexistent/socket")
	_, err := Dial(t.Context(), files.Config())
	check.That(t, errors.As(err, &auth) && strings.Contains(err.Error(), "agent /nonexistent/socket"), "err is %v", err)
}

// TestAuthStuckAgent has an agent that waits for a person who never comes.
func TestAuthStuckAgent(t *testing.T) {
	s, files := newServer(t)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must.OK(t, err)
	defer l.Close()
	files.write(t, s, "IdentityAgent "+l.Addr().String())
	config := files.Config()
	config.HandshakeTimeout = 300 * time.Millisecond
	within(t, hangLimit, "Dial", func() { _, err = Dial(t.Context(), config) })
	var handshake *HandshakeError
	check.That(t, errors.As(err, &handshake) && handshake.Phase == PhaseAuth && errors.Is(err, errTimeout),
		"err is %v", err)
}

func TestKeyOrderAndNumber(t *testing.T) {
	dir := t.TempDir()
	_, stranger := newPrivate(t)
	file := writeKey(t, filepath.Join(dir, "file"))
	both := writeKey(t, filepath.Join(dir, "both"))
	locked := writeKey(t, filepath.Join(dir, "locked"), "secret")
	s := settings{identityFiles: []identityFile{
		{filepath.Join(dir, "file"), true}, {filepath.Join(dir, "both"), true}, {filepath.Join(dir, "locked"), true},
		{filepath.Join(dir, "habit"), false},
	}}
	order := func() string {
		keys, unusable := collectKeys(s, []xssh.Signer{stranger, locked, both})
		names := map[string]string{}
		for name, key := range map[string]xssh.Signer{"stranger": stranger, "file": file, "both": both,
			"locked": locked} {
			names[xssh.FingerprintSHA256(key.PublicKey())] = name
		}
		var list []string
		for _, key := range keys {
			list = append(list, names[key.fact().Fingerprint])
		}
		return fmt.Sprint(list, unusable)
	}
	want := "[both locked file stranger] []"
	check.Equal(t, order(), want)
	s.identitiesOnly = true
	want = "[both locked file] []"
	check.Equal(t, order(), want, "with IdentitiesOnly")

	// A server with MaxAuthTries 6 must not see a seventh key.
	tries := 0
	_, files := newServer(t, func(s *server) {
		s.config.MaxAuthTries = -1
		s.config.PublicKeyCallback = func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) {
			tries++
			return nil, errors.New("no")
		}
	})
	config := files.Config()
	for i := range 9 {
		path := filepath.Join(dir, fmt.Sprint("many", i))
		writeKey(t, path)
		config.IdentityFiles = append(config.IdentityFiles, path)
	}
	_, err := Dial(t.Context(), config)
	var auth *AuthError
	check.That(t, errors.As(err, &auth) && tries == maxKeys && len(auth.Tried) == maxKeys,
		"%d tries, want %d: %v", tries, maxKeys, err)
}

// certified starts a server that lets in who shows the certificate, which it returns as a line.
func certified(t *testing.T) (s *server, files *clientFiles, line string) {
	t.Helper()
	authority := newSigner(t)
	s, files = newServer(t, func(s *server) {
		checker := &xssh.CertChecker{IsUserAuthority: func(key xssh.PublicKey) bool {
			return sameKey(key, authority.PublicKey())
		}}
		s.config.PublicKeyCallback = checker.Authenticate
	})
	cert := &xssh.Certificate{
		Key:             files.key.PublicKey(),
		CertType:        xssh.UserCert,
		ValidPrincipals: []string{"someone"},
		ValidBefore:     xssh.CertTimeInfinity,
	}
	must.OK(t, cert.SignCert(rand.Reader, authority))
	return s, files, string(xssh.MarshalAuthorizedKey(cert))
}

func TestAuthByCertificate(t *testing.T) {
	s, files, line := certified(t)
	var auth *AuthError
	check.Error(Dial(t.Context(), files.Config())).As(t, &auth, "without the certificate")
	named := filepath.Join(t.TempDir(), "issued today.pub")
	writeFile(t, named, line)
	files.write(t, s, `CertificateFile "`+named+`"`)
	dialTest(t, files)
	files.write(t, s)
	writeFile(t, files.identity+"-cert.pub", line)
	dialTest(t, files)
}

func TestNoSHA1(t *testing.T) {
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	plain := must.Get(xssh.NewSignerFromKey(key))(t)
	s := &signer{AlgorithmSigner: plain.(xssh.AlgorithmSigner)}
	for _, algorithm := range s.Algorithms() {
		check.That(t, algorithm != xssh.KeyAlgoRSA, "ssh-rsa, which is SHA-1, is offered")
	}
	config := clientConfig(t.Context(), settings{}, newWire(nil, nil),
		mustHostKeys(t, settings{hostname: "h", port: 22}), &authenticator{})
	all := fmt.Sprint(config.MACs, config.KeyExchanges, config.HostKeyAlgorithms, config.Ciphers)
	for _, word := range []string{"sha1", "cbc", "arcfour", "ssh-rsa", "ssh-dss", "-cert-"} {
		check.That(t, !strings.Contains(all, word), "%s is in %s", word, all)
	}
	supported := xssh.SupportedAlgorithms().Ciphers
	check.That(t, ciphers(supported, true)[0] == xssh.CipherAES128GCM &&
		ciphers(supported, false)[0] == xssh.CipherChaCha20Poly1305 && len(ciphers(supported, false)) == len(supported),
		"ciphers %v, %v", ciphers(supported, true), ciphers(supported, false))
}

// noTicket is a GSSAPI that lets nobody in.
type noTicket struct{}

func (noTicket) AcceptSecContext([]byte) ([]byte, string, bool, error) {
	return nil, "", false, errors.New("no")
}
func (noTicket) VerifyMIC([]byte, []byte) error { return errors.New("no") }
func (noTicket) DeleteSecContext() error        { return nil }

// The error of a refused user names the methods by which ssh itself might get in.
func TestAuthErrorNamesOtherMethods(t *testing.T) {
	for _, tc := range []struct {
		server bool
		option string
		want   []string
	}{
		{true, "GSSAPIAuthentication yes", []string{"gssapi-with-mic"}},
		{true, "GSSAPIAuthentication no", nil},
		{true, "HostbasedAuthentication yes", nil},
		{false, "GSSAPIAuthentication yes", nil},
	} {
		s, files := newServer(t, func(s *server) {
			s.config.PublicKeyCallback = func(xssh.ConnMetadata, xssh.PublicKey) (*xssh.Permissions, error) {
				return nil, errors.New("nobody")
			}
			if tc.server {
				login := func(xssh.ConnMetadata, string) (*xssh.Permissions, error) { return nil, errors.New("nobody") }
				s.config.GSSAPIWithMICConfig = &xssh.GSSAPIWithMICConfig{Server: noTicket{}, AllowLogin: login}
			}
		})
		files.write(t, s, tc.option)
		_, err := Dial(t.Context(), files.Config())
		var auth *AuthError
		check.That(t, errors.As(err, &auth) && slices.Equal(auth.Others, tc.want), "%+v: %+v", tc, err)
	}
}
