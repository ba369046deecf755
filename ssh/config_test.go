package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/ssh/internal/config"
)

func testMachine() environment {
	return environment{
		home:     "/home/me",
		user:     "me",
		hostname: "here.example.org",
		uid:      1000,
		getenv: func(name string) string {
			return map[string]string{"SSH_AUTH_SOCK": "/run/agent", "KEYS": "/keys"}[name]
		},
	}
}

func lookup(lines ...string) func(string) []string {
	return func(keyword string) (values []string) {
		for _, line := range lines {
			if name, value, _ := strings.Cut(line, " "); name == keyword {
				values = append(values, value)
			}
		}
		return values
	}
}

// ssh -G prints names with blanks without their quotes.
func TestKnownHostsFiles(t *testing.T) {
	for value, want := range map[string][]string{
		"/a b":             {"/a b"},
		"~/my known hosts": {"~/my known hosts"},
		"/a b /c  ~/d e":   {"/a b", "/c", "~/d e"},
		"%d/a b ${X}/c":    {"%d/a b", "${X}/c"},
		"known known2":     {"known", "known2"},
		"none":             {"none"},
		"/a /b":            {"/a", "/b"},
	} {
		check.Equal(t, strings.Join(knownHostsFiles([]string{value}, ""), "|"), strings.Join(want, "|"), value)
	}
}

func TestMerge(t *testing.T) {
	s := must.Get(Config{Host: "node1", IdentityFiles: []string{"~/extra"}}.merge(lookup(
		"hostname node1.cluster", "user worker", "port 2222",
		"identityfile ~/.ssh/id_ed25519", "identityfile ${KEYS}/%n-%r", "certificatefile %d/cert.pub",
		"identitiesonly yes",
		"identityagent ~/agent.sock", "proxycommand nc -x gate %h %p %%", "proxyjump none", "hostkeyalias cluster",
		"userknownhostsfile ~/.ssh/known_hosts /other", "globalknownhostsfile none", "stricthostkeychecking no",
		"hashknownhosts yes", "connecttimeout 7"), testMachine()))(t)
	want := settings{
		alias:    "node1",
		hostname: "node1.cluster",
		port:     2222,
		user:     "worker",
		identityFiles: []identityFile{{"/home/me/extra", true}, {"/home/me/.ssh/id_ed25519", false},
			{"/keys/node1-worker", true}},
		certificateFiles: []string{"/home/me/cert.pub"},
		identitiesOnly:   true,
		agent:            "/home/me/agent.sock",
		proxyCommand:     "nc -x gate node1.cluster 2222 %",
		userKnownHosts:   []string{"/home/me/.ssh/known_hosts", "/other"},
		hostKeyAlias:     "cluster",
		hashKnownHosts:   true,
		connectTimeout:   7 * time.Second,
		handshakeTimeout: defaultHandshakeTimeout,
		unchecked:        true,
	}
	check.That(t, reflect.DeepEqual(s, want), "got  %+v\nwant %+v", s, want)
}

func TestMergeDefaults(t *testing.T) {
	s := must.Get(Config{Host: "node1"}.merge(lookup(), testMachine()))(t)
	check.That(t, s.hostname == "node1" && s.port == 22 && s.user == "me" && s.agent == "/run/agent" &&
		!s.acceptNew && s.connectTimeout == defaultConnectTimeout,
		"got %+v", s)
	check.That(t, len(s.identityFiles) != 0 && s.identityFiles[0] == (identityFile{"/home/me/.ssh/id_rsa", false}),
		"identity files %v", s.identityFiles)
	check.That(t, reflect.DeepEqual(s.userKnownHosts, []string{"/home/me/.ssh/known_hosts",
		"/home/me/.ssh/known_hosts2"}), "known_hosts files %v", s.userKnownHosts)
}

func TestMergeOverridesAndVariants(t *testing.T) {
	s, err := Config{
		Host:           "n",
		User:           "u",
		Port:           5,
		ConnectTimeout: time.Second,
		AcceptNew:      true,
	}.merge(
		lookup("user x", "port 1", "connecttimeout 9", "identityagent none", "hostname %h.example.org"), testMachine())
	check.That(t, err == nil && s.user == "u" && s.port == 5 && s.connectTimeout == time.Second && s.agent == "" &&
		s.acceptNew && s.hostname == "n.example.org",
		"got %+v, %v", s, err)
	for host, name := range map[string]string{"fe80::1%hsn0": "", "n": "hostname fe80::1%hsn0"} {
		s, err := (Config{Host: host}).merge(lookup(name), testMachine())
		check.That(t, err == nil && s.hostname == "fe80::1%hsn0" && s.address() == "[fe80::1%hsn0]:22",
			"%s, %q: %+v, %v", host, name, s, err)
	}
	s, err = Config{Host: "n"}.merge(lookup("identityagent $KEYS", "connecttimeout 2m",
		"stricthostkeychecking accept-new"), testMachine())
	check.That(t, err == nil && s.agent == "/keys" && s.connectTimeout == 2*time.Minute && s.acceptNew,
		"got %+v, %v", s, err)
	for _, bad := range []string{"port 0", "port x", "hostname a;b", "user -x"} {
		check.Error((Config{Host: "n"}).merge(lookup(bad), testMachine())).Any(t, bad, "is taken")
	}
}

func TestHostileNames(t *testing.T) {
	for _, word := range []string{"", "-oProxyCommand=id", "a b", "a\nb", "a;b", "$(id)", "`id`", "a'b", `a"b`, "a|b",
		"a>b", "a\x00", "a\x1b[m", `a\b`, "*", "!a"} {
		_, err := Dial(t.Context(), Config{Host: word})
		var config *ConfigError
		check.That(t, errors.As(err, &config), "host %q gives %v", word, err)
		_, err = Dial(t.Context(), Config{Host: "h", User: word})
		check.That(t, word == "" || errors.As(err, &config), "user %q gives %v", word, err)
	}
	for _, word := range []string{"node-1.example.org", "10.0.0.1", "fe80::1%eth0", "me@site", "a_b"} {
		check.OK(t, checkWord("host", word))
	}
}

// TestOptionsLikeSSH compares what the files say of hosts with what ssh says.
func TestOptionsLikeSSH(t *testing.T) {
	lab.Need(t, "ssh")
	hosts := []string{"f1", "f2", "f3", "f10", "g1", "g1.x", "n-7", "gate", "F1", "10.0.0.1", "::1",
		"fe80::1%hsn0"}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "more.conf"),
		"Host f?\n  Port 2222\nHost g*\n  HostName gate\n  ProxyJump me@gate\nMatch all\n")
	writeFile(t, filepath.Join(dir, "plain.conf"), "Port 4\nHost f?\n  Port 2222\nHost *\nUser any\n")
	odd := 3 // hosts of which only ssh knows: F1, ::1 and fe80::1%hsn0
	for name, test := range map[string]struct {
		config string
		asked  int // hosts for which ssh is asked
	}{
		"empty":       {"", odd},
		"star":        {"Host *\n  User me\n  ConnectTimeout 3\n", odd},
		"blocks":      {"Host f1 f2\n User a\nHost f*\n  User b\n IdentityFile ~/%h\nHost * !gate\n Port=7\n", odd},
		"aliases":     {"Host f1\n HostName 10.0.0.1\nHost f2\n HostName f1\nHost f3 f10\n  HostName f3\n", odd},
		"included":    {"include " + dir + "/plain.conf\nHost *\n  ProxyCommand nc -o \"a b\" %h %p\n", odd},
		"in a block":  {"Host f1\n  Include " + dir + "/plain.conf\nHost f2 f3\n Port 5\n", odd},
		"match":       {"Match host f1\n  User x\n", len(hosts)},
		"match below": {"Include " + dir + "/more.conf\n", len(hosts)},
		"name of all": {"Host f*\n  HostName %h.cluster\n", odd},
		"tokens":      {"Host f*\n  HostName %%h.cluster\n", len(hosts)},
		"canonical":   {"CanonicalizeHostname always\n", len(hosts)},
		"quoted":      {"Host \"f1\"\n  User x\n", len(hosts)},
		"commented":   {"User x # not y\n", len(hosts)},
		"not there":   {"Include " + dir + "/nothing*\n", odd},
		"tabs":        {"HOST\tF1\n\tUser big\nhost = f1\n\tUser small\n", odd},
		"first wins": {"Port 1\nPort 2\nProxyCommand a\nProxyJump b\nUserKnownHostsFile /one " +
			"/two\nUserKnownHostsFile /three\n", odd},
		"all keys": {"IdentityFile a\nIdentityFile b\nIdentityFile a\nCertificateFile c\nCertificateFile " +
			"d\nIdentitiesOnly yes\nIdentityAgent none\n", odd},
		"the rest": {"HostKeyAlias k\nHashKnownHosts yes\nStrictHostKeyChecking accept-new\n" +
			"GlobalKnownHostsFile none\n" +
			"GSSAPIAuthentication yes\nHostbasedAuthentication yes\nSendEnv LANG LC_*\nProxyJump none\n", odd},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config")
			writeFile(t, file, test.config)
			var r Resolver
			asked := 0
			for _, host := range hosts {
				c := Config{Host: host, ConfigFile: file, Resolver: &r}
				read := must.Get(r.read(file, "/nonexistent"))(t)
				values, unsure := read.Values(host)
				if unsure != nil {
					asked++
					continue
				}
				said := must.Get(config.Ask(t.Context(), "/usr/bin/ssh", c.arguments()...))(t)
				got, gotErr := c.merge(func(k string) []string { return values[k] }, thisMachine())
				want, wantErr := c.merge(func(k string) []string { return said[k] }, thisMachine())
				check.That(t, reflect.DeepEqual(got, want) && (gotErr == nil) == (wantErr == nil),
					"%s: got %+v, %v\nssh says %+v, %v", host, got, gotErr, want, wantErr)
			}
			check.That(t, asked == test.asked, "ssh is asked for %d hosts, want %d", asked, test.asked)
		})
	}
}

func TestWithoutSSHBinary(t *testing.T) {
	s, files := newServer(t)
	t.Setenv("PATH", "/nonexistent")
	c := must.Get(Dial(t.Context(), files.Config()))(t)
	defer c.Close()
	check.That(t, c.RemoteAddr().String() == s.listen.Addr().String(), "%v", c.RemoteAddr())
}

// A Match block may name the proxy of a host, or the file that has its key.
func TestAProgramOfTheCurrentDirectoryDoesNotHideMatchBlocks(t *testing.T) {
	lab.Need(t, "ssh")
	t.Chdir(t.TempDir())
	writeFile(t, "ssh", "#!/bin/sh\nexit 1\n")
	must.OK(t, os.Chmod("ssh", 0o755))
	file := filepath.Join(t.TempDir(), "config")
	writeFile(t, file, "Match exec true\n  User ada\n")
	for _, before := range []string{".:", ":"} {
		t.Setenv("PATH", before+"/usr/bin:/bin")
		values := must.Get(Config{Host: "f1", ConfigFile: file}.options(t.Context(), "/nonexistent"))(t)
		check.Equal(t, strings.Join(values["user"], " "), "ada", "with PATH=", before, "...")
	}
}

func TestBadConfigFiles(t *testing.T) {
	lab.Need(t, "ssh")
	var config *ConfigError
	_, err := Dial(t.Context(), Config{Host: "h", ConfigFile: "/nonexistent/config"})
	check.That(t, errors.As(err, &config) && errors.Is(err, os.ErrNotExist), "missing file: %v", err)
	file := filepath.Join(t.TempDir(), "config")
	writeFile(t, file, "Host h\n  NoSuchOption yes\n")
	_, err = Dial(t.Context(), Config{Host: "h", ConfigFile: file})
	check.That(t, errors.As(err, &config) && strings.Contains(strings.ToLower(err.Error()), "nosuchoption"),
		"broken file: %v", err)
}

func TestSplitHop(t *testing.T) {
	for hop, want := range map[string][]any{
		"me@[fe80::1%eth0]:2200": {"me", "fe80::1%eth0", 2200},
		"fe80::1%eth0":           {"", "fe80::1%eth0", 0},
		"gate":                   {"", "gate", 0},
		"me@gate:2200":           {"me", "gate", 2200},
		"[::1]:22":               {"", "::1", 22},
		"me@fe80::1":             {"me", "fe80::1", 0},
		"ssh://me@gate:7/":       {"me", "gate", 7},
		"me@site.org@gate.x.org": {"me@site.org", "gate.x.org", 0},
	} {
		user, host, port, err := splitHop(hop)
		check.That(t, err == nil && reflect.DeepEqual([]any{user, host, port}, want),
			"%s: %s %s %d, %v", hop, user, host, port, err)
	}
	check.Error(splitHop("gate:x")).Any(t, "port x is taken")
}

// A command of a Match exec that hangs (nc to a bastion that is not there) outlives ssh -G, and has
// its stderr. Whoever gives the host up does not wait for it.
func TestHangingMatchExec(t *testing.T) {
	must.HaveTime(t)
	ssh := filepath.Join(t.TempDir(), "ssh")
	must.OK(t, os.WriteFile(ssh, []byte("#!/bin/sh\nsleep 9 & wait\n"), 0o700))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	check.Error(config.Ask(ctx, ssh, "--", "f1")).Is(t, context.DeadlineExceeded)
	if took := time.Since(began); took > 6*time.Second { // the goal is 1.2 s
		t.Errorf("took %v", took)
	}
}

func FuzzMerge(f *testing.F) {
	f.Add("userknownhostsfile ~/${X} ${Y\nidentityagent $\nhostname %h%%%d\nconnecttimeout 99999999999999999999")
	f.Add("connecttimeout 99999999999999999\nidentityfile a\nidentityfile b c\nproxycommand none\nport\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Config{Host: "h"}.merge(lookup(strings.Split(text, "\n")...), testMachine())
		if err != nil {
			return
		}
		check.That(t, s.port >= 1 && s.port <= 65535 && s.connectTimeout > 0 &&
			checkWord("host", s.hostname) == nil && checkWord("user", s.user) == nil,
			"got %+v", s)
	})
}

// Host, User and Port of a Config lead to an IPv6 address that no configuration names.
func TestIPv6AddressWithUserAndPort(t *testing.T) {
	listen, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		lab.Skip(t, "this machine has no IPv6: "+err.Error())
	}
	var user string
	s, files := newServer(t, func(s *server) {
		s.linked = func(conn *xssh.ServerConn) { user = conn.User() }
	})
	six := &server{
		home:    s.home,
		hostKey: s.hostKey,
		config:  s.config,
		linked:  s.linked,
		listen:  listen,
		conns:   map[net.Conn]bool{},
	}
	six.done.Go(six.serve)
	t.Cleanup(six.close)
	port := listen.Addr().(*net.TCPAddr).Port
	writeFile(t, files.known, fmt.Sprintf("[::1]:%d %s", port, xssh.MarshalAuthorizedKey(s.hostKey.PublicKey())))
	c := must.Get(Dial(t.Context(), Config{
		Host:       "::1",
		User:       "ada",
		Port:       port,
		ConfigFile: files.config,
	}))(t)
	defer c.Close()
	got := mustRun(t, c, "echo", "six")
	check.That(t, got == "six" && user == "ada", "%q for user %q", got, user)
}
