package attacks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// A host that shows a stolen key, or a certificate of a stolen authority, is refused once that is
// revoked, in each way that OpenSSH has for it.
func TestRevokedHostsAreRefused(t *testing.T) {
	lab.Need(t, "ssh-keygen", "ssh-keyscan")
	dir := t.TempDir()
	keygen := func(args ...string) {
		t.Helper()
		cmd := exec.Command("ssh-keygen", append([]string{"-q"}, args...)...)
		cmd.Dir = dir
		must.Run(t, cmd)
	}
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.OK(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	c := lab.MustLoopback(t, lab.Spec{Options: []string{"HostCertificate " + filepath.Join(dir, "host-cert.pub")}})
	host := c.Host("f1")
	file("host.pub", host.Keys[0]+"\n")
	keygen("-t", "ed25519", "-N", "", "-f", "authority")
	keygen("-s", "authority", "-h", "-I", "node", "-n", host.Addr, "host.pub")
	if err := syscall.Kill(host.PID, syscall.SIGHUP); err != nil { // sshd reads its keys again
		t.Fatal(err)
	}
	must.Until(t, "the certificate", func() bool {
		out, _ := exec.Command("ssh-keyscan", "-c", "-T", "1", "-p", fmt.Sprint(host.Port), host.Addr).Output()
		return strings.Contains(string(out), "-cert-")
	})
	text := must.Get(os.ReadFile(filepath.Join(dir, "authority.pub")))(t)
	keygen("-k", "-f", "krl-host", "host.pub")
	keygen("-k", "-f", "krl-authority", "authority.pub")
	name := fmt.Sprintf("[%s]:%d ", host.Addr, host.Port)
	key := host.Keys[0] + "\n"
	authority := string(text)
	config := must.Get(os.ReadFile(c.ConfigFile))(t)
	for _, tc := range []struct{ name, known, revoked, refusal string }{
		{"the key is known", name + key, "none", ""},
		{"the authority is known", "@cert-authority * " + authority, "none", ""},
		{"key in a list", name + key, file("list", key), "revoked"},
		{"key in a KRL", name + key, filepath.Join(dir, "krl-host"), "revoked"},
		{"key by known_hosts", name + key + "@revoked * " + key, "none", "revoked"},
		{"certified key in a KRL", "@cert-authority * " + authority, filepath.Join(dir, "krl-host"), "revoked"},
		{"authority in a KRL", "@cert-authority * " + authority, filepath.Join(dir, "krl-authority"), "revoked"},
		{"authority by known_hosts", "@cert-authority * " + authority + "@revoked * " + authority, "none", "revoked"},
		{"authority revoked, the key known too", name + key + "@cert-authority * " + authority + "@revoked * " +
			authority, "none", "revoked"},
		{"list that is not there", name + key, filepath.Join(dir, "nothing"), "RevokedHostKeys"},
	} {
		changed := file("config", fmt.Sprintf("Host *\n  RevokedHostKeys %s\n  UserKnownHostsFile %s\n%s", tc.revoked,
			file("known", tc.known), config))
		r := command.Start(t, nil, "-F", changed, "-H", "f1", "echo", "ran")
		code := r.Wait()
		switch refused := code == 125 && r.Out.Len() == 0 && strings.Contains(r.Err.String(), tc.refusal) &&
			strings.Contains(r.Err.String(), "gorun: hint: "); {
		case tc.refusal == "" && code != 0, tc.refusal != "" && !refused:
			t.Errorf("%s: exit code %d: %s%s", tc.name, code, &r.Out, &r.Err)
		}
	}
}
