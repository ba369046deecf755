package settings

import (
	"strings"

	"github.com/spf13/pflag"
)

// addRemoteShellFlags binds the flags that name a program to reach hosts by.
func addRemoteShellFlags(o *Options, flags *pflag.FlagSet) {
	flags.StringVar(&o.RSHAgent, "launch-agent", "", "program that replaces the built-in SSH client, run as PROGRAM ARGS HOST COMMAND")
	flags.StringArrayVar(&o.RSHArgs, "launch-agent-args", nil, "more arguments for --launch-agent, or for ssh with --launcher system-ssh; may be repeated")
}

// Method returns the transport that the options select: a value of --launcher.
func (o *Options) Method() string {
	if o.Launcher == "auto" && o.RSHAgent != "" && !NamesOwnSSH(o.RSHAgent) {
		return "rsh"
	}
	return o.Launcher
}

// NamesOwnSSH reports whether the first of agents is plain ssh, which the built-in client replaces.
func NamesOwnSSH(agents string) bool {
	first, _, _ := strings.Cut(agents, " : ")
	first = strings.TrimSpace(first)
	return first == "ssh" || first == "/usr/bin/ssh"
}
