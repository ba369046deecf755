package transport

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/transport/rsh"
)

// findRemoteShell returns the program, with its arguments, that hosts are reached by; nil where gorun
// does so itself. look finds programs. It is pure but for look.
func findRemoteShell(o *settings.Options, look func(string) (string, error)) ([]string, error) {
	var argv []string
	var err error
	switch o.Method() {
	case "rsh", "ssh":
		argv, err = firstAgent(o, look)
	case "system-ssh":
		argv, err = systemSSH(look)
	}
	if argv == nil || err != nil {
		return nil, err
	}
	for _, text := range o.RSHArgs {
		args, err := usage.SplitShell(text)
		if err != nil {
			return nil, usage.Errorf("", "arguments of %s %q: %w", argv[0], text, err)
		}
		argv = append(argv, args...)
	}
	return argv, nil
}

// firstAgent is the first of --launch-agent's programs that is there; nil for gorun's own SSH.
func firstAgent(o *settings.Options, look func(string) (string, error)) ([]string, error) {
	agents := o.RSHAgent
	if agents == "" && o.Launcher == "rsh" {
		agents = "rsh"
	}
	if agents == "" {
		return nil, nil
	}
	var missing []string
	for agent := range strings.SplitSeq(agents, " : ") {
		argv, err := usage.SplitShell(agent)
		switch {
		case err != nil:
			return nil, usage.Errorf("", "--launch-agent %q: %w", agents, err)
		case len(argv) == 0:
			return nil, usage.Errorf("name a program that is run as PROGRAM HOST COMMAND", "--launch-agent %q: no program", agents)
		case settings.NamesOwnSSH(agent) && o.Launcher != "rsh":
			return nil, nil
		}
		if argv[0], err = look(argv[0]); err == nil {
			return argv, nil
		}
		missing = append(missing, err.Error())
	}
	return nil, usage.Errorf("name an installed program with --launch-agent, or ssh for the built-in client",
		"reach hosts by another program: %s", strings.Join(missing, "; "))
}

// rshConfig is how a program that is used like rsh is called for a host. It is pure.
func rshConfig(argv []string, h hostfile.Host) rsh.Config {
	c := rsh.Config{Argv: argv, Host: h.Name}
	if h.User != "" {
		c.Host = h.User + "@" + h.Name
	}
	if h.Port != 0 {
		c.After = []string{"-p", strconv.Itoa(h.Port)} // where mpirun puts it
	}
	return c
}

// lookPath finds a program, in PATH or where its name says.
func lookPath(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		err = nil // the user named it
	}
	return path, err
}
