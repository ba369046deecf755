package transport

import (
	"fmt"
	"strconv"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/transport/rsh"
	"github.com/gorun/gorun/ssh"
)

// systemSSH returns the system's ssh as a remote shell that never prompts and forwards nothing.
func systemSSH(look func(string) (string, error)) ([]string, error) {
	program, err := look("ssh")
	if err != nil {
		return nil, usage.Errorf("install OpenSSH's client, or leave --launcher out", "--launcher system-ssh: %w", err)
	}
	return []string{program, "-T", "-a", "-x", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes"}, nil
}

// systemSSHConfig returns how to call the system's ssh, argv, for a host.
func systemSSHConfig(argv []string, o Options, h hostfile.Host) rsh.Config {
	keys := "yes"
	if o.HostKeys == "accept-new" {
		keys = o.HostKeys
	}
	argv = append([]string{argv[0], "-o", "StrictHostKeyChecking=" + keys}, argv[1:]...)
	if o.SSHConfig != "" {
		argv = append(argv, "-F", o.SSHConfig)
	}
	for _, file := range o.Identities {
		argv = append(argv, "-i", file)
	}
	port := h.Port
	if port == 0 {
		port = o.SSHPort
	}
	if port != 0 {
		argv = append(argv, "-p", strconv.Itoa(port))
	}
	if h.User != "" {
		argv = append(argv, "-l", h.User)
	}
	// Last, so that --launch-agent-args win: ssh uses the first value. Keepalives detect a dead
	// network within 6 s.
	argv = append(argv, "-o", "ServerAliveInterval=2", "-o", "ServerAliveCountMax=2")
	return rsh.Config{Argv: argv, Host: h.Name}
}

// otherWay returns how the system's ssh may log in by GSSAPI or host-based authentication, which
// the built-in client lacks. ok is false if the host offers neither; kerberos says whether there
// may be a ticket.
func otherWay(denied *ssh.AuthError, argv []string, o Options, h hostfile.Host, kerberos bool) (c rsh.Config, ok bool) {
	for _, method := range denied.Others {
		if method != "gssapi-with-mic" || kerberos {
			c = systemSSHConfig(argv, o, h)
			c.Notice = "reached by the system's ssh (GSSAPI or host-based authentication)"
			return c, true
		}
	}
	return c, false
}

// mayHaveTicket reports whether there may be a Kerberos ticket, in the named cache or the default
// one.
func mayHaveTicket(lookup func(string) (string, bool), uid int, exists func(string) bool) bool {
	if name, _ := lookup("KRB5CCNAME"); name != "" {
		return true
	}
	return exists(fmt.Sprintf("/tmp/krb5cc_%d", uid))
}

func fileExists(name string) bool {
	_, err := trust.Lstat(name)
	return err == nil
}
