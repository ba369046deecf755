package settings

import (
	"strings"

	"github.com/spf13/pflag"
)

// addRemoteShellFlags binds what says by which program hosts are reached.
func addRemoteShellFlags(o *Options, flags *pflag.FlagSet) {
	flags.StringVar(&o.RSHAgent, "launch-agent", "", "program that reaches hosts in place of gorun's own SSH, with its arguments; it is run as PROGRAM ARGS HOST COMMAND")
	flags.StringArrayVar(&o.RSHArgs, "launch-agent-args", nil, "more arguments of that program, or of ssh with --launcher system-ssh, as one text; may be repeated")
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
