package ssh

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/lab"
)

func testMachine() environment {
	return environment{home: "/home/me", user: "me", hostname: "here.example.org", uid: 1000, getenv: func(name string) string {
		return map[string]string{"SSH_AUTH_SOCK": "/run/agent", "KEYS": "/keys"}[name]
	}}
}

func lookup(lines ...string) func(string) []string {
	values := parseDump([]byte(strings.Join(lines, "\n")))
	return func(keyword string) []string { return values[keyword] }
}

func TestMerge(t *testing.T) {
	s, err := Config{Host: "node1", IdentityFiles: []string{"~/extra"}}.merge(lookup(
		"hostname node1.cluster", "user worker", "port 2222",
		"identityfile ~/.ssh/id_ed25519", "identityfile ${KEYS}/%n-%r", "certificatefile %d/cert.pub", "identitiesonly yes",
		"identityagent ~/agent.sock", "proxycommand nc -x gate %h %p %%", "proxyjump none", "hostkeyalias cluster",
		"userknownhostsfile ~/.ssh/known_hosts /other", "globalknownhostsfile none", "stricthostkeychecking no",
		"hashknownhosts yes", "connecttimeout 7"), testMachine())
	if err != nil {
		t.Fatal(err)
	}
	want := settings{
		alias: "node1", hostname: "node1.cluster", port: 2222, user: "worker",
		identityFiles:    []identityFile{{"/home/me/extra", true}, {"/home/me/.ssh/id_ed25519", false}, {"/keys/node1-worker", true}},
		certificateFiles: []string{"/home/me/cert.pub"},
		identitiesOnly:   true,
		agent:            "/home/me/agent.sock",
		proxyCommand:     "nc -x gate node1.cluster 2222 %",
		userKnownHosts:   []string{"/home/me/.ssh/known_hosts", "/other"},
		hostKeyAlias:     "cluster",
		hashKnownHosts:   true,
		connectTimeout:   7 * time.Second,
		handshakeTimeout: defaultHandshakeTimeout,
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

func TestMergeDefaults(t *testing.T) {
	s, err := Config{Host: "node1"}.merge(lookup(), testMachine())
	if err != nil {
		t.Fatal(err)
	}
	if s.hostname != "node1" || s.port != 22 || s.user != "me" || s.agent != "/run/agent" || s.acceptNew || s.connectTimeout != defaultConnectTimeout {
		t.Errorf("got %+v", s)
	}
	if len(s.identityFiles) == 0 || s.identityFiles[0] != (identityFile{"/home/me/.ssh/id_rsa", false}) {
		t.Errorf("identity files %v", s.identityFiles)
	}
	if !reflect.DeepEqual(s.userKnownHosts, []string{"/home/me/.ssh/known_hosts", "/home/me/.ssh/known_hosts2"}) {
		t.Errorf("known_hosts files %v", s.userKnownHosts)
	}
}

func TestMergeOverridesAndVariants(t *testing.T) {
	s, err := Config{Host: "n", User: "u", Port: 5, ConnectTimeout: time.Second, AcceptNew: true}.merge(
		lookup("user x", "port 1", "connecttimeout 9", "identityagent none", "hostname %h.example.org"), testMachine())
	if err != nil || s.user != "u" || s.port != 5 || s.connectTimeout != time.Second || s.agent != "" || !s.acceptNew || s.hostname != "n.example.org" {
		t.Errorf("got %+v, %v", s, err)
	}
	s, err = Config{Host: "n"}.merge(lookup("identityagent $KEYS", "connecttimeout 2m", "stricthostkeychecking accept-new"), testMachine())
	if err != nil || s.agent != "/keys" || s.connectTimeout != 2*time.Minute || !s.acceptNew {
		t.Errorf("got %+v, %v", s, err)
	}
	for _, bad := range []string{"port 0", "port x", "hostname a;b", "user -x"} {
		if _, err := (Config{Host: "n"}).merge(lookup(bad), testMachine()); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestHostileNames(t *testing.T) {
	for _, word := range []string{"", "-oProxyCommand=id", "a b", "a\nb", "a;b", "$(id)", "`id`", "a'b", `a"b`, "a|b", "a>b", "a\x00", "a\x1b[m", `a\b`, "*", "!a"} {
		_, err := Dial(t.Context(), Config{Host: word})
		var config *ConfigError
		if !errors.As(err, &config) {
			t.Errorf("host %q gives %v", word, err)
		}
		if _, err := Dial(t.Context(), Config{Host: "h", User: word}); word != "" && !errors.As(err, &config) {
			t.Errorf("user %q gives %v", word, err)
		}
	}
	for _, word := range []string{"node-1.example.org", "10.0.0.1", "fe80::1%eth0", "me@site", "a_b"} {
		if err := checkWord("host", word); err != nil {
			t.Error(err)
		}
	}
}

const sampleConfig = `
Include more
Match final all
  User wrong
Host f1
  HostName 127.0.0.9
  Port 2201
  User rank
  IdentityFile /keys/a
  IdentityFile /keys/b
Host *
  ConnectTimeout 3
  UserKnownHostsFile /known/one /known/two
`

// TestFilesLikeSSH holds the parser that stands in for ssh against ssh itself.
func TestFilesLikeSSH(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	writeFile(t, file, sampleConfig)
	c := Config{Host: "f1", ConfigFile: file}
	get, err := c.readFiles("/home/me")
	if err != nil {
		t.Fatal(err)
	}
	fallback, err := c.merge(get, testMachine())
	if err != nil {
		t.Fatal(err)
	}
	if fallback.hostname != "127.0.0.9" || fallback.port != 2201 || fallback.user != "rank" || len(fallback.identityFiles) != 2 ||
		fallback.connectTimeout != 3*time.Second || len(fallback.userKnownHosts) != 2 {
		t.Errorf("got %+v", fallback)
	}
	lab.Need(t, "ssh")
	values, err := c.askSSH(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked, err := c.merge(func(k string) []string { return values[k] }, testMachine())
	asked.hashKnownHosts = fallback.hashKnownHosts // the distributions differ in this default
	if err != nil || !reflect.DeepEqual(asked, fallback) {
		t.Errorf("ssh says  %+v\nfiles say %+v: %v", asked, fallback, err)
	}
}

func TestWithoutSSHBinary(t *testing.T) {
	s, files := newServer(t)
	t.Setenv("PATH", "/nonexistent")
	c, err := Dial(t.Context(), files.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.RemoteAddr().String() != s.listen.Addr().String() {
		t.Error(c.RemoteAddr())
	}
}

func TestBadConfigFiles(t *testing.T) {
	lab.Need(t, "ssh")
	var config *ConfigError
	_, err := Dial(t.Context(), Config{Host: "h", ConfigFile: "/nonexistent/config"})
	if !errors.As(err, &config) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	file := filepath.Join(t.TempDir(), "config")
	writeFile(t, file, "Host h\n  NoSuchOption yes\n")
	_, err = Dial(t.Context(), Config{Host: "h", ConfigFile: file})
	if !errors.As(err, &config) || !strings.Contains(strings.ToLower(err.Error()), "nosuchoption") {
		t.Errorf("broken file: %v", err)
	}
}

func TestSplitHop(t *testing.T) {
	for hop, want := range map[string][]any{
		"gate":                   {"", "gate", 0},
		"me@gate:2200":           {"me", "gate", 2200},
		"[::1]:22":               {"", "::1", 22},
		"me@fe80::1":             {"me", "fe80::1", 0},
		"ssh://me@gate:7/":       {"me", "gate", 7},
		"me@site.org@gate.x.org": {"me@site.org", "gate.x.org", 0},
	} {
		user, host, port, err := splitHop(hop)
		if err != nil || !reflect.DeepEqual([]any{user, host, port}, want) {
			t.Errorf("%s: %s %s %d, %v", hop, user, host, port, err)
		}
	}
	if _, _, _, err := splitHop("gate:x"); err == nil {
		t.Error("port x is taken")
	}
}

func FuzzParseDump(f *testing.F) {
	f.Add("host h\nuser me\nidentityfile a\nidentityfile b c\n")
	f.Add("proxycommand none\n\nport\nport 22\r\n")
	f.Add("userknownhostsfile ~/${X} ${Y\nidentityagent $\nhostname %h%%%d\nconnecttimeout 99999999999999999999")
	f.Add("connecttimeout 99999999999999999\n")
	f.Fuzz(func(t *testing.T, text string) {
		values := parseDump([]byte(text))
		for keyword, list := range values {
			if keyword == "" || strings.ContainsAny(keyword, " \n") || len(list) == 0 {
				t.Errorf("keyword %q has %q", keyword, list)
			}
			for _, v := range list {
				if strings.ContainsRune(v, '\n') || !strings.Contains(text, v) {
					t.Errorf("%s has the value %q", keyword, v)
				}
			}
		}
		s, err := Config{Host: "h"}.merge(func(k string) []string { return values[k] }, testMachine())
		if err != nil {
			return
		}
		if s.port < 1 || s.port > 65535 || s.connectTimeout <= 0 || checkWord("host", s.hostname) != nil || checkWord("user", s.user) != nil {
			t.Errorf("got %+v", s)
		}
	})
}

func FuzzDropMatch(f *testing.F) {
	f.Add(sampleConfig)
	f.Add("match all\nHost\t*\nMATCH x")
	f.Add("\r\r")
	f.Fuzz(func(t *testing.T, text string) {
		out := string(dropMatch([]byte(text)))
		if got, want := strings.Count(out, "\n"), strings.Count(text, "\n"); got < want {
			t.Errorf("%d lines of %d are left", got, want)
		}
		if again := string(dropMatch([]byte(out))); again != out {
			t.Errorf("a second pass changes %q to %q", out, again)
		}
	})
}

// A command of a Match exec that hangs (nc to a bastion that is not there) outlives ssh -G, and has its stderr. Whoever gives the
// host up does not wait for it.
func TestHangingMatchExec(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\nsleep 9 & wait\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := (Config{Host: "f1"}).askSSH(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 6*time.Second { // the goal is 1.2 s
		t.Errorf("took %v", took)
	}
}
