package ssh

import (
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	xssh "golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

func mustHostKeys(t testing.TB, s settings) *hostKeys {
	t.Helper()
	return must.Get(newHostKeys(s, s.target(), nil))(t)
}

func TestUnknownHostKey(t *testing.T) {
	other := publicLine(newSigner(t))
	for name, tc := range map[string]struct{ option, known string }{
		"no entry": {},
		"StrictHostKeyChecking no is not inherited": {"StrictHostKeyChecking no", ""},
		// Another sshd of the same machine, say one in a container, has another key.
		"an entry without the port is no proof of a change": {"", "127.0.0.1 " + other},
	} {
		t.Run(name, func(t *testing.T) {
			s, files := newServer(t)
			files.write(t, s, tc.option)
			writeFile(t, files.known, tc.known)
			_, err := Dial(t.Context(), files.Config())
			var unknown *UnknownHostKeyError
			must.That(t, errors.As(err, &unknown), "err is %v", err)
			check.That(t, unknown.Key.Fingerprint == xssh.FingerprintSHA256(s.hostKey.PublicKey()) &&
				unknown.Key.Type == "ssh-ed25519" && slices.Contains(unknown.Files, files.known),
				"got %+v", unknown)
			port := s.listen.Addr().(*net.TCPAddr).Port
			assertHint(t, err, fmt.Sprintf("ssh-keyscan -p %d 127.0.0.1 >> %s", port, files.known),
				"--host-keys=accept-new")
			text := must.Get(os.ReadFile(files.known))(t)
			check.Equal(t, string(text), tc.known, "known_hosts")
		})
	}
}

func TestChangedHostKey(t *testing.T) {
	s, files := newServer(t)
	old := newSigner(t)
	port := s.listen.Addr().(*net.TCPAddr).Port
	writeFile(t, files.known, fmt.Sprintf("# old\n[127.0.0.1]:%d %s", port, publicLine(old)))
	for _, acceptNew := range []bool{false, true} {
		config := files.Config()
		config.AcceptNew = acceptNew
		_, err := Dial(t.Context(), config)
		var changed *ChangedHostKeyError
		must.That(t, errors.As(err, &changed), "err is %v", err)
		check.That(t, len(changed.Known) == 1 &&
			changed.Known[0].Fingerprint == xssh.FingerprintSHA256(old.PublicKey()) &&
			changed.Known[0].Place == (Place{files.known, 2}) &&
			changed.Key.Fingerprint != changed.Known[0].Fingerprint, "got %+v", changed)
		assertHint(t, err, "sed -i 2d "+files.known)
	}
}

func TestRevokedHostKey(t *testing.T) {
	s, files := newServer(t)
	text, _ := os.ReadFile(files.known)
	writeFile(t, files.known, string(text)+"@revoked * "+publicLine(s.hostKey))
	config := files.Config()
	config.AcceptNew = true
	_, err := Dial(t.Context(), config)
	var revoked *RevokedHostKeyError
	must.That(t, errors.As(err, &revoked) && revoked.Place == (Place{files.known, 2}), "err is %v", err)
	assertHint(t, err, "new key")
}

// A host's key is learned once, in the form that the configuration wants and that ssh reads.
func TestAcceptNew(t *testing.T) {
	lab.Need(t, "ssh")
	s, files := newServer(t)
	name := fmt.Sprintf("[127.0.0.1]:%d", s.listen.Addr().(*net.TCPAddr).Port)
	for _, hash := range []string{"no", "yes"} {
		files.write(t, s, "HashKnownHosts "+hash)
		// no line break at the end
		writeFile(t, files.known, "other.example "+strings.TrimSpace(publicLine(newSigner(t))))
		config := files.Config()
		config.AcceptNew = true
		for range 2 {
			c := must.Get(Dial(t.Context(), config))(t)
			c.Close()
		}
		text, _ := os.ReadFile(files.known)
		check.Equal(t, strings.Count(string(text), "\n"), 2, "lines, want 2:", text)
		check.That(t, strings.Contains(string(text), name) == (hash == "no"), "HashKnownHosts %s:\n%s", hash, text)
		dialTest(t, files) // strict again
		must.Run(t, exec.Command("ssh", "-F", files.config, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes",
			"h", "true"))
	}
	files.write(t, s, "StrictHostKeyChecking accept-new", "UserKnownHostsFile "+
		filepath.Join(files.dir, "new", "known"))
	dialTest(t, files)
	text, err := os.ReadFile(filepath.Join(files.dir, "new", "known"))
	check.That(t, err == nil && strings.Contains(string(text), name), "%v: %s", err, text)
}

// A key is learned through no link that another user has put in the place of the file.
func TestKeysAreLearnedThroughNoLinkOfOthers(t *testing.T) {
	lab.NeedRoot(t)
	s, files := newServer(t)
	precious := filepath.Join(files.dir, "precious")
	link := filepath.Join(files.dir, "link")
	writeFile(t, precious, "old\n")
	must.OK(t, errors.Join(os.Symlink(precious, link), os.Lchown(link, 65533, 65533)))
	files.write(t, s, "StrictHostKeyChecking accept-new", "UserKnownHostsFile "+link)
	_, err := Dial(t.Context(), files.Config())
	text := must.Get(os.ReadFile(precious))(t)
	check.That(t, err != nil && string(text) == "old\n", "%v: the file has %q", err, text)
}

// A key is learned although another user who may read the file holds its lock.
func TestKeysAreLearnedWhoeverHoldsTheLock(t *testing.T) {
	s, files := newServer(t)
	files.write(t, s, "StrictHostKeyChecking accept-new")
	writeFile(t, files.known, "")
	holder := must.Get(os.Open(files.known))(t)
	defer holder.Close()
	must.OK(t, unix.Flock(int(holder.Fd()), unix.LOCK_EX))
	config := files.Config()
	config.Resolver = new(Resolver)
	within(t, hangLimit, "learning", func() {
		c, err := Dial(timeout(t, 10*time.Second), config)
		if check.OK(t, err) {
			c.Close()
		}
	})
	check.That(t, config.Resolver.learning.unlocked, "each further host waits for the lock")
	check.Equal(t, strings.Count(string(must.Get(os.ReadFile(files.known))(t)), "\n"), 1, "lines")
}

// The hosts of a job share what was read, until the file changes.
func TestKnownHostsAreReadOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known_hosts")
	var r Resolver
	check.Error(r.knownHosts(file)).Is(t, os.ErrNotExist, "no file")
	line := "f1 " + publicLine(newSigner(t))
	writeFile(t, file, line)
	first, err := r.knownHosts(file)
	must.That(t, err == nil && len(first.Of("f1")) == 1, "%+v, %v", first, err)
	again, err := r.knownHosts(file)
	check.That(t, err == nil && again == first, "it was read again, or %v", err)
	writeFile(t, file, line+"f2 "+publicLine(newSigner(t)))
	more, err := r.knownHosts(file)
	check.That(t, err == nil && len(more.Of("f2")) == 1, "after a change: %+v, %v", more, err)
}

func TestLockedKnownHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	holder := must.Get(os.Create(path))(t)
	defer holder.Close()
	must.OK(t, new(learning).lock(t.Context(), holder))
	other := must.Get(os.Open(path))(t)
	defer other.Close()
	within(t, hangLimit, "lock", func() {
		check.That(t, new(learning).lock(timeout(t, 50*time.Millisecond), other) != nil, "two have the lock")
	})
}

// The algorithms of a known key are asked for first, and of an RSA key those without SHA-1.
func TestAlgorithmsOfAKnownKeyComeFirst(t *testing.T) {
	key := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	known := filepath.Join(t.TempDir(), "known_hosts")
	writeFile(t, known, "h "+publicLine(must.Get(xssh.NewSignerFromKey(key))(t)))
	k := mustHostKeys(t, settings{
		alias:          "h",
		hostname:       "h",
		port:           22,
		userKnownHosts: []string{known},
	})
	first := k.algorithms()[:2]
	slices.Sort(first)
	check.That(t, slices.Equal(first, []string{xssh.KeyAlgoRSASHA256, xssh.KeyAlgoRSASHA512}), "first are %v", first)
}

// A connection that renews its session keys shows its host key again, when the context of its
// beginning has ended: a list of revoked keys cannot be asked then.
func TestHostKeyIsJudgedOnce(t *testing.T) {
	key := newSigner(t).PublicKey()
	k := must.Get(newHostKeys(settings{}, Target{Host: "h"}, nil))(t)
	k.settings.hostname = "h"
	k.settings.port = 22
	// It does not exist, so no key passes.
	k.settings.revokedHostKeys = []string{filepath.Join(t.TempDir(), "revoked")}
	again := k.callback(t.Context())
	check.Error(again("h", nil, key)).Any(t, "a key passes before it is judged")
	k.accepted = key
	check.OK(t, again("h", nil, key))
	check.Error(again("h", nil, newSigner(t).PublicKey())).Any(t, "another key passes")
}
