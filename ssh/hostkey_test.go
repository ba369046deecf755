package ssh

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	xssh "golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

func mustHostKeys(t testing.TB, s settings) *hostKeys {
	t.Helper()
	return must.Get(newHostKeys(s, s.target(), nil))(t)
}

func TestUnknownHostKey(t *testing.T) {
	s, files := newServer(t)
	writeFile(t, files.known, "")
	_, err := Dial(t.Context(), files.Config())
	var unknown *UnknownHostKeyError
	must.That(t, errors.As(err, &unknown), "err is %v", err)
	if unknown.Key.Fingerprint != xssh.FingerprintSHA256(s.hostKey.PublicKey()) || unknown.Key.Type != "ssh-ed25519" ||
		!slices.Contains(unknown.Files, files.known) {
		t.Errorf("got %+v", unknown)
	}
	port := s.listen.Addr().(*net.TCPAddr).Port
	assertHint(t, err, fmt.Sprintf("ssh-keyscan -p %d 127.0.0.1 >> %s", port, files.known), "--host-keys=accept-new")
	if text, _ := os.ReadFile(files.known); len(text) > 0 {
		t.Errorf("a key was added: %s", text)
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
		if len(changed.Known) != 1 || changed.Known[0].Fingerprint != xssh.FingerprintSHA256(old.PublicKey()) ||
			changed.Known[0].Place != (Place{files.known, 2}) ||
			changed.Key.Fingerprint == changed.Known[0].Fingerprint {
			t.Errorf("got %+v", changed)
		}
		assertHint(t, err, "sed -i 2d "+files.known)
	}
}

func TestStrictHostKeyCheckingNoIsNotInherited(t *testing.T) {
	s, files := newServer(t)
	files.write(t, s, "StrictHostKeyChecking no")
	writeFile(t, files.known, "")
	var unknown *UnknownHostKeyError
	if _, err := Dial(t.Context(), files.Config()); !errors.As(err, &unknown) {
		t.Errorf("err is %v", err)
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

func TestAcceptNew(t *testing.T) {
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
		if plain := strings.Contains(string(text), name); plain != (hash == "no") {
			t.Errorf("HashKnownHosts %s:\n%s", hash, text)
		}
		dialTest(t, files) // strict again
	}
	files.write(t, s, "StrictHostKeyChecking accept-new", "UserKnownHostsFile "+
		filepath.Join(files.dir, "new", "known"))
	dialTest(t, files)
	if text, err := os.ReadFile(filepath.Join(files.dir, "new", "known")); err != nil ||
		!strings.Contains(string(text), name) {
		t.Errorf("%v: %s", err, text)
	}
}

// TestAcceptNewInParallel has 50 jobs learn five hosts at once.
func TestAcceptNewInParallel(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known_hosts")
	var keys []xssh.PublicKey
	for range 5 {
		keys = append(keys, newSigner(t).PublicKey())
	}
	var shared Resolver // of half of the jobs
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			host := i % len(keys)
			s := settings{
				alias:          "h",
				hostname:       fmt.Sprint("host", host),
				port:           22,
				userKnownHosts: []string{file},
				acceptNew:      true,
			}
			k, err := newHostKeys(s, s.target(), []*Resolver{nil, &shared}[i%2])
			if err == nil {
				err = k.callback(t.Context())("", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 22}, keys[host])
			}
			check.OK(t, err)
		})
	}
	wg.Wait()
	text, _ := os.ReadFile(file)
	if n := bytes.Count(text, []byte("\n")); n != len(keys) {
		t.Errorf("%d lines, want %d:\n%s", n, len(keys), text)
	}
	if _, err := xknownhosts.New(file); err != nil {
		t.Error(err)
	}
}

// The hosts of a job share what was read, until the file changes.
func TestKnownHostsAreReadOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "known_hosts")
	var r Resolver
	if _, err := r.knownHosts(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	line := "f1 " + publicLine(newSigner(t))
	writeFile(t, file, line)
	first, err := r.knownHosts(file)
	must.That(t, err == nil && len(first.Of("f1")) == 1, "%+v, %v", first, err)
	if again, err := r.knownHosts(file); err != nil || again != first {
		t.Errorf("it was read again, or %v", err)
	}
	writeFile(t, file, line+"f2 "+publicLine(newSigner(t)))
	if more, err := r.knownHosts(file); err != nil || len(more.Of("f2")) != 1 {
		t.Errorf("after a change: %+v, %v", more, err)
	}
}

func TestLockedKnownHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	holder := must.Get(os.Create(path))(t)
	defer holder.Close()
	must.OK(t, lock(t.Context(), holder))
	other := must.Get(os.Open(path))(t)
	defer other.Close()
	within(t, hangLimit, "lock", func() {
		if err := lock(timeout(t, 50*time.Millisecond), other); err == nil {
			t.Error("two have the lock")
		}
	})
}

// TestHostKeyChoice is about which of a server's keys is asked for and how the
// names in the files match.
func TestHostKeyChoice(t *testing.T) {
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	second := must.Get(xssh.NewSignerFromKey(private))(t)
	s, files := newServer(t, func(s *server) { s.config.AddHostKey(second) })
	port := s.listen.Addr().(*net.TCPAddr).Port
	name := fmt.Sprintf("[127.0.0.1]:%d", port)
	junk := "127.0.0.1 ssh-unheard-of AAAA\n127.0.0.1 1024 35 1234\n\n"
	for what, text := range map[string]string{
		"first key only":      name + " " + publicLine(s.hostKey),
		"second key only":     name + " " + publicLine(second),
		"hashed":              xknownhosts.HashHostname(name) + " " + publicLine(second),
		"wildcard":            "127.0.* " + publicLine(s.hostKey),
		"list of names":       "a,b," + name + " " + publicLine(s.hostKey),
		"without port":        "127.0.0.1 " + publicLine(second),
		"junk lines":          junk + name + " " + publicLine(s.hostKey),
		"comment and no keys": "# x\n" + name + " " + publicLine(s.hostKey),
	} {
		writeFile(t, files.known, text)
		c, err := Dial(t.Context(), files.Config())
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		c.Close()
	}
	writeFile(t, files.known, "cluster "+publicLine(second))
	files2 := *files
	files2.write(t, s, "HostKeyAlias cluster")
	writeFile(t, files.known, "cluster "+publicLine(second))
	dialTest(t, &files2)

	var changed *ChangedHostKeyError
	writeFile(t, files.known, junk+"cluster "+publicLine(newSigner(t)))
	if _, err := Dial(t.Context(), files2.Config()); !errors.As(err, &changed) ||
		changed.Known[0].Place != (Place{files.known, 4}) {
		t.Errorf("err is %v", err)
	}
}

func TestEntryWithoutPortIsNoProofOfChange(t *testing.T) {
	// Another sshd of the same machine, say one in a container, has another key.
	_, files := newServer(t)
	writeFile(t, files.known, "127.0.0.1 "+publicLine(newSigner(t)))
	var unknown *UnknownHostKeyError
	if _, err := Dial(t.Context(), files.Config()); !errors.As(err, &unknown) {
		t.Errorf("err is %v", err)
	}
}
