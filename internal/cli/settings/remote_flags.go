package settings

import (
	"strings"

	"github.com/spf13/pflag"
)

// addRemoteShellFlags binds what says by which program hosts are reached.
func addRemoteShellFlags(o *Options, flags *pflag.FlagSet) {
	flags.StringVar(&o.RSHAgent, "launch-agent", "", "program that replaces the built-in SSH client, run as PROGRAM ARGS HOST COMMAND")
	flags.StringArrayVar(&o.RSHArgs, "launch-agent-args", nil, "more arguments for --launch-agent, or for ssh with --launcher system-ssh; may be repeated")
}

// Method is how hosts are reached, where o says so.
func (o *Options) Method() string {
	if o.Launcher == "auto" && o.RSHAgent != "" && !NamesOwnSSH(o.RSHAgent) {
		return "rsh"
	}
	return o.Launcher
}

// NamesOwnSSH reports whether the first of some programs is the plain ssh, in whose place
// gorun's own client is. It is pure.
func NamesOwnSSH(agents string) bool {
	first, _, _ := strings.Cut(agents, " : ")
	first = strings.TrimSpace(first)
	return first == "ssh" || first == "/usr/bin/ssh"
}
