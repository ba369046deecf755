package transport

import (
	"cmp"
	"strings"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher/transport/srun"
	"github.com/gorun/gorun/ssh"
)

// Options select the transport to hosts and configure it. Their zero values stand for defaults,
// except for Launcher.
type Options struct {
	Launcher   string   // auto, ssh, system-ssh, rsh, kubexec, srun or local
	RSHAgent   string   // programs to reach hosts by, separated by " : "; the first that is installed counts
	RSHArgs    []string // more arguments for the program, in a shell's words
	SSHConfig  string   // file, or none
	SSHPort    int      // port of hosts that name none
	Identities []string // files of private keys
	HostKeys   string   // accept-new accepts unknown host keys
	Namespace  string   // of pods that kubexec reaches; "": the one that kubectl chooses
	NoKept     bool     // connects to every host, also to those that gorun up keeps
	// Together starts the agents of a Slurm job's nodes by one step; nil: each has a step of its
	// own.
	Together *srun.Together
	// Trace gets a line per step; nil: none.
	Trace func(format string, args ...any)
}

func (o Options) trace(format string, args ...any) {
	if o.Trace != nil {
		o.Trace(format, args...)
	}
}

// sshConfig returns how the built-in client reaches a host.
func (o Options) sshConfig(h hostfile.Host, resolver *ssh.Resolver) ssh.Config {
	return ssh.Config{
		Host:          h.Name,
		User:          h.User,
		Port:          cmp.Or(h.Port, o.SSHPort),
		ConfigFile:    o.SSHConfig,
		IdentityFiles: o.Identities,
		Resolver:      resolver,
		AcceptNew:     o.HostKeys == "accept-new",
	}
}

// Method returns the transport that the options select: a value of Launcher.
func (o Options) Method() string {
	if o.Launcher == "auto" && o.RSHAgent != "" && !namesOwnSSH(o.RSHAgent) {
		return "rsh"
	}
	return o.Launcher
}

// namesOwnSSH reports whether the first of agents is plain ssh, which the built-in client replaces.
func namesOwnSSH(agents string) bool {
	first, _, _ := strings.Cut(agents, " : ")
	first = strings.TrimSpace(first)
	return first == "ssh" || first == "/usr/bin/ssh"
}

// IsLocal reports whether h is this machine, without a user or port that require a login.
func IsLocal(h hostfile.Host, hostname string) bool {
	if h.User != "" || h.Port != 0 || h.Name == "" {
		return false
	}
	switch h.Name {
	case "localhost", "127.0.0.1", "::1", hostname:
		return true
	}
	return false
}
