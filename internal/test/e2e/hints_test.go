package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// hinted is a lab in which gorun does not reach a host at first.
type hinted struct {
	*testing.T
	hosts  *lab.Cluster
	dir    string // for files of the test
	config string // ssh configuration of the test: options, then those of the lab
}

// write makes a file of the test and returns its path.
func (h *hinted) write(name, text string, mode os.FileMode) string {
	h.Helper()
	path := filepath.Join(h.dir, name)
	must.OK(h, os.WriteFile(path, []byte(text), mode))
	return path
}

// copy copies a file of the lab.
func (h *hinted) copy(from, name string, mode os.FileMode) string {
	h.Helper()
	text := must.Get(os.ReadFile(from))(h)
	return h.write(name, string(text), mode)
}

// configure puts options before those of the lab, and leaves out those that unset names.
func (h *hinted) configure(options string, unset ...string) {
	h.Helper()
	text := must.Get(os.ReadFile(h.hosts.ConfigFile))(h)
	for _, option := range unset {
		text = regexp.MustCompile(`(?m)^ *`+option+` .*\n`).ReplaceAll(text, nil)
	}
	h.config = h.write("config", options+"\n"+string(text), 0o600)
}

// known returns the lab's line of known_hosts of a host with another key.
func (h *hinted) known(host string, key string) string {
	of := h.hosts.Host(host)
	return fmt.Sprintf("[%s]:%d %s\n", of.Addr, of.Port, key)
}

// forms are how hints contain what to type, in a group: "shell" runs before gorun, "flags" are
// added to its command line, and "key" prints a line for authorized_keys.
var forms = []struct {
	does string
	form *regexp.Regexp
}{
	{"shell", regexp.MustCompile(`then: (.*)`)},
	{"shell", regexp.MustCompile(`what is known of it: (.*)`)},
	{"shell", regexp.MustCompile(`hint: (chmod .*)`)},
	{"shell", regexp.MustCompile(`unlock the key first: (.*)`)},
	{"flags", regexp.MustCompile(`let new hosts in unseen[^:]*: (.*)`)},
	{"flags", regexp.MustCompile(`the system's ssh may: (.*)`)},
	{"key", regexp.MustCompile(`no passwords: (.*)`)},
}

// The hints about SSH hosts remove their causes: what they say to type is typed, until gorun
// reaches the host.
func TestHintsRemoveTheirCauses(t *testing.T) {
	lab.Need(t, "ssh", "ssh-keygen", "ssh-keyscan", "ssh-agent", "ssh-add", "sed")
	for _, tc := range []struct {
		name  string
		spec  lab.Spec
		make  func(h *hinted)
		says  string
		steps int
	}{
		{"no folder for known hosts", lab.Spec{}, func(h *hinted) {
			h.configure("UserKnownHostsFile " + filepath.Join(h.dir, "new", "known"))
		}, "unknown host key", 1},
		{"known hosts that are not kept", lab.Spec{}, func(h *hinted) {
			h.configure("UserKnownHostsFile /dev/null\nStrictHostKeyChecking no")
		}, "says StrictHostKeyChecking no", 1},
		{"an unknown host behind a jump host", lab.Spec{}, func(h *hinted) {
			h.configure("UserKnownHostsFile "+h.write("known", h.known("f2", h.hosts.Host("f2").Keys[0]), 0o600)+
				"\nHost f1\n  ProxyJump f2\nHost *", "BatchMode")
		}, "unknown host key", 1},
		{"an unknown host of another name", lab.Spec{}, func(h *hinted) {
			h.configure("UserKnownHostsFile " + h.write("known", "", 0o600) + "\nHostKeyAlias cluster")
		}, "unknown host key", 1},
		{"several old keys", lab.Spec{}, func(h *hinted) {
			text := h.known("f1", h.hosts.Host("f2").Keys[0]) + "# mine\n" + h.known("f1", h.hosts.Host("f3").Keys[0])
			h.configure("UserKnownHostsFile " + h.write("known", text, 0o600))
		}, "host key changed", 2},
		{"a key that others may read", lab.Spec{}, func(h *hinted) {
			h.configure(`IdentityFile "`+h.copy(h.hosts.Identity, "my key", 0o640)+`"`, "IdentityFile")
		}, "mode 0640", 1},
		{"a locked key and no agent", lab.Spec{}, func(h *hinted) {
			key := h.copy(h.hosts.Identity, "locked", 0o600)
			must.Run(h, h.hosts.Command(h.Context(), "ssh-keygen", "-p", "-q", "-N", "secret", "-f", key))
			h.configure("IdentityFile "+key, "IdentityFile", "IdentityAgent")
		}, "encrypted", 1},
		{"no key, and a server without passwords", lab.Spec{}, func(h *hinted) {
			h.configure("IdentityFile "+filepath.Join(h.dir, "new"), "IdentityFile")
		}, "no key to offer", 1},
		{"a refused key, and a server without passwords", lab.Spec{}, func(h *hinted) {
			key := filepath.Join(h.dir, "other")
			must.Run(h, h.hosts.Command(h.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key))
			must.OK(h, os.Remove(key+".pub"))
			h.configure("IdentityFile "+key, "IdentityFile")
		}, "tried ", 1},
		{"an old key exchange", lab.Spec{Options: []string{"KexAlgorithms diffie-hellman-group14-sha1"}}, nil,
			"no common algorithm for key exchange", 1},
		{"an old host key", lab.Spec{Options: []string{"HostKeyAlgorithms ssh-rsa"}, Keys: []string{"rsa"}}, nil,
			"no common algorithm for host key", 1},
		{"an old cipher", lab.Spec{Options: []string{"Ciphers aes128-cbc"}}, nil,
			"no common algorithm for client to", 1},
		{"an old MAC", lab.Spec{Options: []string{"MACs hmac-sha1", "Ciphers aes128-ctr"}}, nil,
			"no common algorithm for client to", 1},
		{"a new key exchange", lab.Spec{Options: []string{"KexAlgorithms sntrup761x25519-sha512@openssh.com"}}, nil,
			"no common algorithm for key exchange", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := &hinted{T: t, hosts: lab.MustLoopback(t, tc.spec, lab.Spec{}, lab.Spec{}), dir: t.TempDir()}
			h.config = h.hosts.ConfigFile
			if tc.make != nil {
				tc.make(h)
			}
			h.follow(tc.says, tc.steps)
		})
	}
}

// follow runs gorun and does as its hints say, for a number of steps. The first error says why.
func (h *hinted) follow(says string, steps int) {
	h.Helper()
	// A person's answers: ssh asks whether the host's key is right, ssh-add for a passphrase.
	answer := h.write("answer", "#!/bin/sh\ncase $1 in *passphrase*) echo secret ;; *) echo yes ;; esac\n", 0o700)
	env := []string{"SSH_ASKPASS=" + answer, "SSH_ASKPASS_REQUIRE=force", "DISPLAY=:0", "SSH_AUTH_SOCK="}
	shell := ":"
	args := []string{command.Binary("gorun"), "-F", h.config, "-H", "f1", "--prefix", "none", "echo", "reached"}
	for step := 0; ; step++ {
		script := `trap '[ -z "$SSH_AGENT_PID" ] || ssh-agent -k >/dev/null' EXIT; ` + "{ " + shell + `; } >/dev/null && "$@"`
		r := command.New(h.T, h.hosts, command.Limit, command.NewMark(h.T),
			append([]string{"sh", "-c", script, "sh"}, args...)...)
		r.Cmd.Env = append(append(r.Cmd.Env, "HOME="+h.dir), env...)
		must.OK(h, r.Start())
		code := r.Wait()
		said := r.Err.String()
		if step == steps {
			check.That(h, code == 0 && strings.Contains(r.Out.String(), "reached\n"),
				"after %s, exit code %d:\n%s", shell, code, said)
			return
		}
		must.That(h, code == 125 && (step != 0 || strings.Contains(said, says)),
			"exit code %d, want 125 and %q:\n%s", code, says, said)
		h.Log(said)
		shell = h.obey(said, &args)
	}
}

// obey returns the shell command of the first hint in what gorun said, or adds its flags to args.
func (h *hinted) obey(said string, args *[]string) (shell string) {
	h.Helper()
	for _, f := range forms {
		typed := f.form.FindStringSubmatch(said)
		switch {
		case typed == nil:
			continue
		case f.does == "shell":
			return typed[1]
		case f.does == "key":
			unasked := strings.Replace(typed[1], "-t ed25519", "-t ed25519 -q -N ''", 1)
			return fmt.Sprintf("{ %s; } >>%s", unasked, filepath.Join(h.hosts.Dir, "authorized_keys"))
		}
		words := must.Get(usage.SplitShell(typed[1]))(h)
		*args = append([]string{(*args)[0]}, append(words, (*args)[1:]...)...)
		return ":"
	}
	h.Fatalf("no hint says what to type:\n%s", said)
	return ""
}
