package ssh

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// hostKeyLab has servers with one host key and several certificates for it.
type hostKeyLab struct {
	host, authority, other xssh.Signer
	servers                map[string]*clientFiles
	ports                  map[string]int
}

func newHostKeyLab(t *testing.T) *hostKeyLab {
	t.Helper()
	l := &hostKeyLab{
		host:      newSigner(t),
		authority: newSigner(t),
		other:     newSigner(t),
		servers:   map[string]*clientFiles{},
		ports:     map[string]int{},
	}
	for kind, mangle := range map[string]func(*xssh.Certificate){
		"none":       nil,
		"good":       func(*xssh.Certificate) {},
		"expired":    func(c *xssh.Certificate) { c.ValidBefore = uint64(time.Now().Add(-time.Hour).Unix()) },
		"future":     func(c *xssh.Certificate) { c.ValidAfter = uint64(time.Now().Add(time.Hour).Unix()) },
		"other name": func(c *xssh.Certificate) { c.ValidPrincipals = []string{"elsewhere"} },
		"any name":   func(c *xssh.Certificate) { c.ValidPrincipals = nil },
		"user's":     func(c *xssh.Certificate) { c.CertType = xssh.UserCert },
		"options":    func(c *xssh.Certificate) { c.CriticalOptions = map[string]string{"force-command": "x"} },
	} {
		s, files := newServer(t, func(s *server) {
			s.hostKey = l.host
			s.config.AddHostKey(l.host)
			if mangle == nil {
				return
			}
			cert := &xssh.Certificate{
				Key:             l.host.PublicKey(),
				Serial:          7,
				KeyId:           "node",
				CertType:        xssh.HostCert,
				ValidPrincipals: []string{"127.0.0.1"},
				ValidBefore:     xssh.CertTimeInfinity,
			}
			mangle(cert)
			must.OK(t, cert.SignCert(rand.Reader, l.authority))
			signer := must.Get(xssh.NewCertSigner(cert, l.host))(t)
			s.config.AddHostKey(signer)
		})
		l.servers[kind] = files
		l.ports[kind] = s.listen.Addr().(*net.TCPAddr).Port
	}
	return l
}

// What KnownHostsCommand prints counts as with OpenSSH, which asks it in the same words.
func TestKnownHostsCommandIsAskedAsByOpenSSH(t *testing.T) {
	must.HaveTime(t)
	lab.Need(t, "ssh")
	l := newHostKeyLab(t)
	host := publicLine(l.host)
	t.Setenv("WORDS", "two words, %h and ${HOME}")
	for _, tt := range []struct {
		name    string
		server  string // its certificate
		known   string // lines of the file; NAME is [127.0.0.1]:port
		prints  string // by the command
		then    string // what the command does then
		command string // "": the one that prints
		accept  bool
	}{
		{name: "known by it alone", server: "none", prints: "NAME " + host, accept: true},
		{name: "known without the port", server: "none", prints: "127.0.0.1 " + host},
		{name: "nothing to say", server: "none", known: "NAME " + host, accept: true},
		{name: "another key", server: "none", prints: "NAME " + publicLine(l.other)},
		{name: "revoked", server: "none", known: "NAME " + host, prints: "@revoked * " + host},
		{name: "revoked for another host", server: "none", known: "NAME " + host, prints: "@revoked other " + host,
			accept: true},
		{name: "authority", server: "good", prints: "@cert-authority * " + publicLine(l.authority), accept: true},
		{name: "it fails", server: "none", prints: "NAME " + host, then: "exit 3"},
		{name: "relative", server: "none", known: "", command: "ask"},
		{name: "quotes", server: "none", prints: "NAME " + host, accept: true,
			command: `"ASK" 'a  b' "c 'd" e\ f \'g '\'' "\a\\ \ \"" "x"y'z' ''` + "\ta\u00a0b  "},
		{name: "quoted tokens", server: "none", prints: "NAME " + host, accept: true,
			command: `ASK '%H %%H' "${WORDS}" ${WORDS}x$y $ {}`},
		{name: "no tokens in its path", server: "none", prints: "NAME " + host, accept: true, command: "ASK%%h"},
		{name: "unknown token", server: "none", known: "NAME " + host, prints: "NAME " + host, command: "ASK %z"},
		{name: "no such variable", server: "none", known: "NAME " + host, prints: "NAME " + host,
			command: "ASK ${NO_SUCH_WORDS}"},
		{name: "variable without end", server: "none", known: "NAME " + host, prints: "NAME " + host,
			command: "ASK ${WORDS"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := l.servers[tt.server]
			dir := t.TempDir()
			name := fmt.Sprintf("[127.0.0.1]:%d", l.ports[tt.server])
			writeFile(t, files.known, strings.ReplaceAll(tt.known, "NAME", name))
			writeFile(t, filepath.Join(dir, "lines"), strings.ReplaceAll(tt.prints, "NAME", name))
			ask := filepath.Join(dir, "ask")
			const text = "#!/bin/sh\ncd %s\nprintf '<%%s>' \"$@\" >>log\ncat lines\n%s"
			must.OK(t, os.WriteFile(ask, fmt.Appendf(nil, text, dir, tt.then), 0o700))
			must.OK(t, os.Symlink(ask, ask+"%%h"))
			config := fmt.Sprintf("Host h\n  HostName 127.0.0.1\n  Port %d\n  User someone\n  IdentityFile %s\n"+
				"  IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile %s\n"+
				"  GlobalKnownHostsFile /dev/null\n"+
				"  KnownHostsCommand %s %%I %%H %%t %%f %%K %%h %%n %%p %%r %%k %%%%h\n",
				l.ports[tt.server], files.identity, files.known,
				strings.ReplaceAll(or(tt.command, "ASK"), "ASK", ask))
			writeFile(t, files.config, config)
			log := func() string {
				text, _ := os.ReadFile(filepath.Join(dir, "log"))
				_ = os.Remove(filepath.Join(dir, "log"))
				return string(text)
			}
			c, err := Dial(t.Context(), files.Config())
			if err == nil {
				c.Close()
			}
			ours := log()
			out, failed := exec.Command("ssh", "-F", files.config, "-o", "BatchMode=yes", "-o",
				"StrictHostKeyChecking=yes", "h", "true").CombinedOutput()
			check.That(t, (failed == nil) == tt.accept, "OpenSSH: %v: %s", failed, out)
			check.That(t, (err == nil) == tt.accept, "we: %v", err)
			check.Equal(t, ours, log())
			var hinter Hinter
			check.That(t, err == nil || errors.As(err, &hinter), "no hint: %v", err)
		})
	}
}

// Host keys, certificates and revocations are judged as OpenSSH judges them, case by case.
func TestHostKeysAreJudgedAsByOpenSSH(t *testing.T) {
	must.HaveTime(t)
	lab.Need(t, "ssh", "ssh-keygen")
	l := newHostKeyLab(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		writeFile(t, path, text)
		return path
	}
	host := publicLine(l.host)
	authority := publicLine(l.authority)
	other := publicLine(l.other)
	revocationList := func(name string, args ...string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Run(t, exec.Command("ssh-keygen", append([]string{"-q", "-k", "-f", path}, args...)...))
		return path
	}
	hostFile := file("host.pub", host)
	authorityFile := file("authority.pub", authority)
	otherFile := file("other.pub", other)
	for _, tt := range []struct {
		name    string
		server  string // its certificate
		known   string // NAME is [127.0.0.1]:port, HASHED its hash
		revoked string // RevokedHostKeys
		accept  bool
	}{
		{"known", "none", "NAME " + host, "", true},
		{"unknown", "none", "", "", false},
		{"changed", "none", "NAME " + other, "", false},
		{"one of two", "none", "NAME " + other + "NAME " + host, "", true},
		{"known without the port", "none", "127.0.0.1 " + host, "", true},
		{"changed without the port", "none", "127.0.0.1 " + other, "", false},
		{"changed with the port, known without", "none", "NAME " + other + "127.0.0.1 " + host, "", false},
		{"pattern", "none", "[127.*]:* " + host, "", true},
		{"negated", "none", "!NAME,!127.*,* " + host, "", false},
		{"hashed", "none", "HASHED " + host, "", true},
		{"changed, hashed", "none", "HASHED " + other, "", false},
		{"in a list of names", "none", "a,!b,NAME " + host, "", true},
		{"after lines that are none", "none",
			"# x\n\nNAME ssh-unheard-of AAAA\nNAME 1024 35 1234\n|1|bad|hash " + other + "@unheard-of NAME " +
				other + "\tNAME " + strings.TrimSpace(host) + " a comment\r\n", "", true},
		{"commented out", "none", "# NAME " + host, "", false},
		{"revoked", "none", "NAME " + host + "@revoked * " + host, "", false},
		{"revoked by name", "none", "NAME " + host + "@revoked NAME " + host, "", false},
		{"revoked for another host", "none", "NAME " + host + "@revoked elsewhere " + host, "", true},
		{"another key revoked", "none", "NAME " + host + "@revoked * " + other, "", true},
		{"key of the authority of others", "none", "@cert-authority * " + host, "", false},
		{"in a list of revoked keys", "none", "NAME " + host, file("list", "# lost\n\n"+other+host), false},
		{"not in the list", "none", "NAME " + host, file("others", other), true},
		{"list that is no list", "none", "NAME " + host, file("no-list", "what is this\n"), false},
		{"list that is not there", "none", "NAME " + host, filepath.Join(dir, "nothing"), false},
		{"in a KRL", "none", "NAME " + host, revocationList("krl", hostFile), false},
		{"not in the KRL", "none", "NAME " + host, revocationList("krl-other", otherFile), true},
		{"in a KRL by SHA-256", "none", "NAME " + host, revocationList("krl-hash", file("spec", "sha256: "+host)),
			false},
		{"broken KRL", "none", "NAME " + host, file("krl-broken", "SSHKRL\n\x00\x00\x00\x00\x01"), false},

		{"certificate", "good", "@cert-authority 127.0.0.1 " + authority, "", true},
		{"certificate by pattern", "good", "@cert-authority *.1 " + authority, "", true},
		{"no authority", "good", "", "", false},
		{"another authority", "good", "@cert-authority * " + other, "", false},
		{"authority of other hosts", "good", "@cert-authority elsewhere " + authority, "", false},
		{"authority as a host's key", "good", "* " + authority, "", false},
		{"authority as a host's key beside another authority", "good", "@cert-authority * " + other + "* " + authority,
			"", false},
		{"authority revoked", "good", "@cert-authority * " + authority + "@revoked * " + authority, "", false},
		{"authority revoked, key known", "good", "@cert-authority * " + authority + "@revoked * " + authority +
			"NAME " + host, "", false},
		{"authority revoked for others", "good", "@cert-authority * " + authority + "@revoked elsewhere " + authority,
			"", true},
		{"certified key revoked", "good", "@cert-authority * " + authority + "@revoked * " + host, "", false},
		{"certificate and another key", "good", "@cert-authority * " + authority + "NAME " + other, "", true},
		{"expired", "expired", "@cert-authority * " + authority, "", false},
		{"expired, key known", "expired", "@cert-authority * " + authority + "NAME " + host, "", true},
		{"not valid yet", "future", "@cert-authority * " + authority, "", false},
		{"for another host", "other name", "@cert-authority * " + authority, "", false},
		{"for another host, key known", "other name", "@cert-authority * " + authority + "NAME " + host, "", true},
		{"a user's", "user's", "@cert-authority * " + authority, "", false},
		{"unknown options", "options", "@cert-authority * " + authority, "", false},
		{"authority in a list of revoked keys", "good", "@cert-authority * " + authority, file("list-ca", authority),
			false},
		{"certified key in the list", "good", "@cert-authority * " + authority, file("list-key", host), false},
		{"authority in a KRL", "good", "@cert-authority * " + authority, revocationList("krl-ca", authorityFile),
			false},
		{"certified key in a KRL", "good", "@cert-authority * " + authority, revocationList("krl-key", hostFile),
			false},
		{"serial in a KRL", "good", "@cert-authority * " + authority,
			revocationList("krl-serial", "-s", authorityFile, file("serial", "serial: 5-9\n")), false},
		{"serial not in the KRL", "good", "@cert-authority * " + authority,
			revocationList("krl-serials", "-s", authorityFile, file("serials", "serial: 8-9\n")), true},
		{"name of the certificate in a KRL", "good", "@cert-authority * " + authority,
			revocationList("krl-id", "-s", authorityFile, file("id", "id: node\n")), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := l.servers[tt.server]
			name := fmt.Sprintf("[127.0.0.1]:%d", l.ports[tt.server])
			writeFile(t, files.known,
				strings.NewReplacer("NAME", name, "HASHED", xknownhosts.HashHostname(name)).Replace(tt.known))
			config := fmt.Sprintf("Host *\n  RevokedHostKeys %s\nHost h\n  HostName 127.0.0.1\n  Port %d\n  User "+
				"someone\n  IdentityFile %s\n  IdentitiesOnly yes\n"+
				"  IdentityAgent none\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile /dev/null\n",
				or(tt.revoked, "none"), l.ports[tt.server], files.identity, files.known)
			writeFile(t, files.config, config)
			c, err := Dial(t.Context(), files.Config())
			if err == nil {
				c.Close()
			}
			out, theirs := exec.Command("ssh", "-F", files.config, "-o", "BatchMode=yes", "-o",
				"StrictHostKeyChecking=yes", "h", "true").CombinedOutput()
			check.That(t, (theirs == nil) == tt.accept, "OpenSSH: %v: %s", theirs, out)
			check.That(t, (err == nil) == tt.accept, "we: %v", err)
			var hinter Hinter
			check.That(t, err == nil || errors.As(err, &hinter), "no hint: %v", err)
		})
	}
}
