package ssh

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	xssh "golang.org/x/crypto/ssh"
)

// Another name, login, port, key, agent, jump host, proxy or file of host keys is another way to a
// host.
func TestIdentityOfAWay(t *testing.T) {
	s, f := startServer(t)
	other := filepath.Join(t.TempDir(), "other")
	writeKey(t, other)
	identity := func(c Config) string {
		t.Helper()
		return must.Get(Identity(t.Context(), c))(t)
	}
	base := f.Config()
	first := identity(base)
	same := base
	same.ConnectTimeout = 7
	same.Resolver = &Resolver{}
	same.User = "someone"
	same.Port = s.listen.Addr().(*net.TCPAddr).Port
	check.That(t, identity(same) == first, "the same way has another identity")
	seen := map[string]string{first: "the first"}
	add := func(name, id string) {
		before, known := seen[id]
		check.That(t, !known, "%s has the identity of %s", name, before)
		seen[id] = name
	}
	for name, change := range map[string]func(*Config){
		"user": func(c *Config) { c.User = "ada" }, "port": func(c *Config) { c.Port = 1 }, "key": func(c *Config) {
			c.IdentityFiles = []string{other}
		},
		"accept-new": func(c *Config) { c.AcceptNew = true }, "alias": func(c *Config) { c.Host = "127.0.0.1" },
	} {
		c := base
		change(&c)
		add(name, identity(c))
	}
	for _, line := range []string{"ProxyJump g", "ProxyCommand nc %h", "IdentityAgent /run/agent", "HostKeyAlias x",
		"UserKnownHostsFile /none", "CertificateFile /none"} {
		f.write(t, s, line)
		add(line, identity(base))
	}
	f.write(t, s, "ProxyJump g")
	text := must.Get(os.ReadFile(f.config))(t)
	writeFile(t, f.config, "Host g\n  User other\n"+string(text))
	add("jump host's user", identity(base))
	f.write(t, s)
	check.That(t, identity(base) == first, "the first way has another identity now")
	must.OK(t, os.Remove(f.identity))
	writeKey(t, f.identity)
	add("new key in the file", identity(base))
	check.Error(Identity(t.Context(), Config{Host: "-oProxyCommand=x"})).Any(t, "an option is a host")
}

func TestHostKeyIsCheckedAgain(t *testing.T) {
	_, f := newServer(t)
	c := dialTest(t, f)
	check.OK(t, CheckHostKey(t.Context(), f.Config(), c.HostKey()), "the host's key")
	var changed *ChangedHostKeyError
	check.Error(CheckHostKey(t.Context(), f.Config(), newSigner(t).PublicKey().Marshal())).As(t, &changed,
		"another key")
	check.That(t, CheckHostKey(t.Context(), f.Config(), []byte("no key")) != nil, "no key at all is trusted")
	known := must.Get(os.ReadFile(f.known))(t)
	var unknown *UnknownHostKeyError
	writeFile(t, f.known, "")
	accepting := f.Config()
	accepting.AcceptNew = true
	check.Error(CheckHostKey(t.Context(), accepting, c.HostKey())).As(t, &unknown, "a key that is not known any more")
	var revoked *RevokedHostKeyError
	writeFile(t, f.known, strings.TrimSpace(string(known))+"\n@revoked * "+
		string(bytes.SplitN(known, []byte(" "), 2)[1]))
	check.Error(CheckHostKey(t.Context(), f.Config(), c.HostKey())).As(t, &revoked, "a key that was revoked")
}

func TestPing(t *testing.T) {
	linked := make(chan *xssh.ServerConn, 1)
	_, f := newServer(t, func(s *server) { s.linked = func(conn *xssh.ServerConn) { linked <- conn } })
	c := dialTest(t, f)
	check.OK(t, c.Ping(t.Context()), "a server that answers")
	select {
	case <-c.Done():
		t.Error("the connection has ended")
	default:
	}
	ended, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	err := c.Ping(ended)
	check.That(t, err == nil || errors.Is(err, enough), "a ping that is not wanted: %v", err)
	(<-linked).Close()
	<-c.Done()
	var lost *LostError
	check.Error(c.Ping(t.Context())).As(t, &lost, "after the end")
}
