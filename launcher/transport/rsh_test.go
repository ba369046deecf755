package transport

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/ssh"
)

// lookAmong finds only the given programs.
func lookAmong(programs ...string) func(string) (string, error) {
	return func(name string) (string, error) {
		if slices.Contains(programs, name) {
			return "/bin/" + strings.TrimPrefix(name, "/bin/"), nil
		}
		return "", errors.New(name + " is not there")
	}
}

func TestWhichRemoteShell(t *testing.T) {
	for _, tc := range []struct {
		launcher, agent string
		args            []string
		want            string // with | between; "": the built-in client, or the transport of --launcher
		method          string
		wrong           string
	}{
		{launcher: "auto", method: "auto"},
		{launcher: "auto", agent: "ssh", method: "auto"},
		{launcher: "auto", agent: "/usr/bin/ssh", method: "auto"},
		{launcher: "auto", agent: "ssh : rsh", method: "auto"},
		{launcher: "ssh", agent: "ssh", method: "ssh"},
		{launcher: "auto", agent: "kube 'a b' -c", args: []string{"-x y"}, want: "/bin/kube|a b|-c|-x|y",
			method: "rsh"},
		{launcher: "auto", agent: "nothing -x : kube -y : rsh", want: "/bin/kube|-y", method: "rsh"},
		{launcher: "auto", agent: "nothing : ssh", method: "rsh"},
		{launcher: "ssh", agent: "kube", want: "/bin/kube", method: "ssh"},
		{launcher: "rsh", want: "/bin/rsh", method: "rsh"},
		{launcher: "rsh", agent: "ssh", want: "/bin/ssh", method: "rsh"},
		{launcher: "auto", agent: "ssh -q", want: "/bin/ssh|-q", method: "rsh"},
		{launcher: "srun", agent: "kube", method: "srun"},
		{launcher: "local", agent: "nothing", method: "local"},
		{launcher: "system-ssh", agent: "kube", args: []string{"-4"},
			want: "/bin/ssh|-T|-a|-x|-o|BatchMode=yes|-o|ClearAllForwardings=yes|-4", method: "system-ssh"},
		{launcher: "auto", agent: "nothing : nought", method: "rsh",
			wrong: "nothing is not there; nought is not there"},
		{launcher: "auto", agent: "kube 'a", method: "rsh", wrong: "a quote is not closed"},
		{launcher: "auto", agent: " ", method: "rsh", wrong: "no program"},
	} {
		o := Options{Launcher: tc.launcher, RSHAgent: tc.agent, RSHArgs: tc.args}
		argv, err := findRemoteShell(o, lookAmong("ssh", "rsh", "kube"))
		check.Equal(t, o.Method(), tc.method, tc, "method")
		if tc.wrong != "" {
			check.That(t, usage.Is(err) && strings.Contains(err.Error(), tc.wrong), "%+v: %v", tc, err)
			continue
		}
		got := strings.Join(argv, "|")
		check.That(t, err == nil && got == tc.want, "%+v: %q, %v", tc, got, err)
	}
	_, err := findRemoteShell(Options{Launcher: "system-ssh"}, lookAmong())
	check.That(t, usage.Is(err), "no ssh: %v", err)
}

// The current directory may be one in which others write, and the system's ssh is also tried where
// a host denies access to the built-in client.
func TestHostsAreReachedByNoProgramOfTheCurrentDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	own := t.TempDir()
	for _, folder := range []string{".", "tools", own} {
		must.OK(t, os.MkdirAll(folder, 0o755))
		must.OK(t, os.WriteFile(filepath.Join(folder, "ssh"), []byte("#!/bin/sh\n"), 0o755))
	}
	for _, before := range []string{"", ".:", ":", "tools:"} {
		t.Setenv("PATH", before+own)
		argv := must.Get(systemSSH(lookPath))(t)
		check.Equal(t, argv[0], own+"/ssh", "with PATH=", before, "...")
	}
	check.Equal(t, must.Get(lookPath("./ssh"))(t), must.Get(filepath.Abs("ssh"))(t))
}

func TestHowAProgramIsCalledForAHost(t *testing.T) {
	c := rshConfig([]string{"/bin/kube"}, hostfile.Host{Name: "f1", User: "ada", Port: 2222})
	check.That(t, c.Host == "ada@f1" && slices.Equal(c.After, []string{"-p", "2222"}) && c.Notice == "", "%+v", c)
	o := Options{SSHConfig: "conf", Identities: []string{"k1", "k2"}, SSHPort: 7}
	c = systemSSHConfig([]string{"/bin/ssh", "-T"}, o, hostfile.Host{Name: "fd00::1", User: "ada"})
	want := "/bin/ssh -o StrictHostKeyChecking=yes -T -F conf -i k1 -i k2 -p 7 -l ada -o ServerAliveInterval=2 -o " +
		"ServerAliveCountMax=2"
	got := strings.Join(c.Argv, " ")
	check.That(t, got == want && c.Host == "fd00::1" && c.After == nil, "%s, %+v", got, c)
	o.HostKeys = "accept-new"
	c = systemSSHConfig([]string{"/bin/ssh"}, o, hostfile.Host{Name: "f1", Port: 8})
	if got := strings.Join(c.Argv, " "); got != "/bin/ssh -o StrictHostKeyChecking=accept-new -F conf -i k1 -i k2 -p "+
		"8 -o ServerAliveInterval=2 -o ServerAliveCountMax=2" {
		t.Error(got)
	}
}

func TestWhenTheSystemsSSHMayGetIn(t *testing.T) {
	for _, tc := range []struct {
		others   []string
		kerberos bool
		want     bool
	}{
		{nil, true, false},
		{[]string{"gssapi-with-mic"}, false, false},
		{[]string{"gssapi-with-mic"}, true, true},
		{[]string{"hostbased"}, false, true},
		{[]string{"gssapi-with-mic", "hostbased"}, false, true},
	} {
		c, ok := otherWay(&ssh.AuthError{Others: tc.others}, []string{"/bin/ssh"}, Options{}, hostfile.Host{Name: "f1"},
			tc.kerberos)
		check.That(t, ok == tc.want && ok == (c.Notice != ""), "%+v: %v, %+v", tc, ok, c)
	}
	for name, want := range map[string]bool{"/tmp/krb5cc_7": true, "/tmp/krb5cc_8": false} {
		check.Equal(t, mayHaveTicket(environ.Lookup(nil), 7, func(file string) bool { return file == name }), want,
			name)
	}
	if !mayHaveTicket(environ.Lookup(map[string]string{"KRB5CCNAME": "KEYRING:x"}), 7, func(string) bool {
		return false
	}) {
		t.Error("KRB5CCNAME counts for nothing")
	}
}
