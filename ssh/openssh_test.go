package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// These tests hold the client against real sshds.

func labDial(t *testing.T, c *lab.Cluster, host string) *Client {
	t.Helper()
	client := must.Get(Dial(t.Context(), Config{Host: host, ConfigFile: c.ConfigFile}))(t)
	t.Cleanup(func() { client.Close() })
	return client
}

func mustRun(t *testing.T, c *Client, argv ...string) string {
	t.Helper()
	var out, said bytes.Buffer
	err := c.Run(t.Context(), argv, nil, &out, &said)
	must.That(t, err == nil, "%q: %v: %s", argv, err, said.String())
	return strings.TrimSpace(out.String())
}

func TestOpenSSHRunAndPut(t *testing.T) {
	noLeaks(t)
	hosts := lab.MustLoopback(t,
		lab.Spec{Options: []string{"MaxSessions 1"}},
		lab.Spec{Options: []string{"MaxSessions 1"}, NoSFTP: true},
		lab.Spec{Options: []string{"Banner /etc/os-release"}},
	)
	for _, h := range hosts.Hosts {
		c := labDial(t, hosts, h.Name)
		check.Equal(t, mustRun(t, c, "echo", "it's", "$HOME"), "it's $HOME", h.Name, "says")
		err := c.Run(t.Context(), sh("kill -KILL $$"), nil, nil, nil)
		var exit *ExitError
		check.That(t, errors.As(err, &exit) && exit.ExitCode() == 128+9, "%s: killed: %v", h.Name, err)
		file := filepath.Join(t.TempDir(), "new", "program")
		for _, text := range []string{"#!/bin/sh\necho one\n", "#!/bin/sh\necho two\n"} {
			must.OK(t, c.Put(t.Context(), file, 0o755, strings.NewReader(text)))
		}
		check.Equal(t, mustRun(t, c, file), "two", h.Name, "the program says")
		list, _ := os.ReadDir(filepath.Dir(file))
		check.That(t, len(list) == 1, "%s: left are %v", h.Name, list)
		check.Equal(t, c.RemoteAddr().String(), fmt.Sprintf("%s:%d", h.Addr, h.Port), h.Name, "is at")
	}
}

func TestOpenSSHProxyJump(t *testing.T) {
	noLeaks(t)
	hosts := lab.MustLoopback(t, lab.Specs(3)...)
	text, _ := os.ReadFile(hosts.ConfigFile)
	config := filepath.Join(t.TempDir(), "ssh_config")
	for jumps, depth := range map[string]int{"f1": 1, "f1,f2": 2} {
		writeFile(t, config, fmt.Sprintf("Host f3\n  ProxyJump %s\n%s", jumps, text))
		c := must.Get(Dial(t.Context(), Config{Host: "f3", ConfigFile: config}))(t)
		// The target sees the last hop, not us, as its peer.
		peer := strings.Fields(mustRun(t, c, "sh", "-c", "echo $SSH_CONNECTION"))
		check.That(t, len(peer) == 4 && peer[2] == hosts.Host("f3").Addr, "SSH_CONNECTION is %q", peer)
		found := 0
		for via := c.wire.via; via != nil; via = via.wire.via {
			found++
		}
		check.That(t, found == depth, "%d hops, want %d", found, depth)
		check.OK(t, c.Put(t.Context(), filepath.Join(t.TempDir(), "f"), 0o600, strings.NewReader("x")))
		c.Close()
	}
	writeFile(t, config, fmt.Sprintf("Host f3\n  ProxyJump f1\n  HostName 127.0.0.1\n  Port 1\n%s", text))
	_, err := Dial(t.Context(), Config{Host: "f3", ConfigFile: config})
	var unreachable *ForwardError
	check.That(t, errors.As(err, &unreachable) && strings.Contains(err.Error(), "from jump host f1 ("),
		"err is %v", err)
	writeFile(t, config, fmt.Sprintf("Host f3\n  ProxyJump f1\nHost f1\n  User nobody-at-all\n%s", text))
	_, err = Dial(t.Context(), Config{Host: "f3", ConfigFile: config})
	var auth *AuthError
	check.That(t, errors.As(err, &auth) && auth.Host == "f1" && strings.Contains(err.Error(), "jump host"),
		"err is %v", err)
}

// The hint of an error fits what a real sshd did.
func TestOpenSSHErrorsHintAtTheirCause(t *testing.T) {
	hosts := lab.MustLoopback(t, lab.Spec{}, lab.Spec{Options: []string{"AllowTcpForwarding no"}},
		lab.Spec{Options: []string{"AuthenticationMethods publickey,password", "PasswordAuthentication yes"}},
		lab.Spec{Options: []string{"MaxAuthTries 2"}}, lab.Spec{Options: []string{"AuthorizedKeysFile none"}})
	text, _ := os.ReadFile(hosts.ConfigFile)
	dir := t.TempDir()
	config := filepath.Join(dir, "ssh_config")
	var others []string
	for i := range 3 {
		others = append(others, filepath.Join(dir, fmt.Sprint("other", i)))
		writeKey(t, others[i])
	}
	for _, tc := range []struct {
		name, options, host string
		keys                []string
		says, hint          string
	}{
		{"a jump host that does not forward", "Host f1\n  ProxyJump f2", "f1", nil,
			"f1 (", "have forwarding allowed on f2 (AllowTcpForwarding"},
		{"a jump host that does not reach the host", "Host f2\n  ProxyJump f1\n  Port 1", "f2", nil,
			"cannot be reached from jump host f1 (", "check that the jump host reaches it: ssh -F " + config +
				" f1 ssh-keyscan -p 1 " + hosts.Host("f2").Addr},
		{"a proxy command that fails", "Host f1\n  ProxyCommand echo no way >&2; exit 1", "f1", nil,
			`cannot be reached: the proxy command says "no way"`, "ssh -G -F " + config +
				" f1 | grep -i proxycommand"},
		{"a second method", "", "f3", nil, "the server took the key, and also wants password",
			"ControlMaster"},
		{"too many keys", "", "f4", others, "Too many authentication failures", "-i FILE"},
		{"a name that is wrong", "", "f5", []string{filepath.Join(dir, "typo")}, "not usable " + dir + "/typo",
			"check the name " + dir + "/typo"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			writeFile(t, config, tc.options+"\n"+string(text))
			c, err := Dial(t.Context(), Config{Host: tc.host, ConfigFile: config, IdentityFiles: tc.keys})
			if err == nil {
				c.Close()
			}
			var hinter Hinter
			must.That(t, errors.As(err, &hinter) && strings.Contains(err.Error(), tc.says) &&
				strings.Contains(hinter.Hint(), tc.hint) && !strings.Contains(hinter.Hint(), "ping"),
				"%v\nhint %v", err, hinter)
			if _, command, found := strings.Cut(hinter.Hint(), "to see it: "); found {
				out, err := exec.Command("sh", "-c", command).Output()
				check.That(t, err == nil && strings.Contains(string(out), "echo no way"),
					"%s prints %q, %v", command, out, err)
			}
		})
	}
}
