package transport

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/host/lookup"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/transport/rsh"
)

// findRemoteShell returns the program to reach hosts by, with its arguments; nil for the built-in
// client. look finds programs.
func findRemoteShell(o Options, look func(string) (string, error)) ([]string, error) {
	var argv []string
	var err error
	switch o.Method() {
	case "rsh", "ssh":
		argv, err = firstAgent(o, look)
	case "system-ssh":
		argv, err = systemSSH(look)
	case "kubexec":
		argv, err = kubectl(o.Namespace, look)
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

// firstAgent returns the first installed program of --launch-agent; nil for the built-in client.
func firstAgent(o Options, look func(string) (string, error)) ([]string, error) {
	agents := o.RSHAgent
	if agents == "" && o.Launcher == "rsh" {
		agents = "rsh"
	}
	if agents == "" {
		return nil, nil
	}
	var missing []string
	remedy := "name an installed program with --launch-agent, or ssh for the built-in client"
	for agent := range strings.SplitSeq(agents, " : ") {
		argv, err := usage.SplitShell(agent)
		switch {
		case err != nil:
			return nil, usage.Errorf("", "--launch-agent %q: %w", agents, err)
		case len(argv) == 0:
			return nil, usage.Errorf("name a program that is run as PROGRAM HOST COMMAND",
				"--launch-agent %q: no program", agents)
		case namesOwnSSH(agent) && o.Launcher != "rsh":
			return nil, nil
		}
		if argv[0], err = look(argv[0]); err == nil {
			return argv, nil
		}
		missing = append(missing, err.Error())
		remedy = cmp.Or(usage.Hint(err), remedy)
	}
	return nil, usage.Errorf(remedy, "reach hosts by another program: %s", strings.Join(missing, "; "))
}

// rshConfig returns how to call an rsh-like program for a host.
func rshConfig(argv []string, h hostfile.Host) rsh.Config {
	c := rsh.Config{Argv: argv, Host: h.Name}
	if h.User != "" {
		c.Host = h.User + "@" + h.Name
	}
	if h.Port != 0 {
		c.After = []string{"-p", strconv.Itoa(h.Port)} // same position as in mpirun
	}
	return c
}

// lookPath finds a program in the absolute folders of PATH, or by its path, and checks that it can
// be started. Others may write in the current directory, and one below it may be theirs.
func lookPath(name string) (string, error) {
	folders := os.Getenv("PATH")
	if !strings.Contains(name, "/") {
		path, err := exec.LookPath(name)
		switch {
		case err == nil:
			name = path
		case errors.Is(err, exec.ErrDot):
			relative := func(folder string) bool { return !filepath.IsAbs(folder) }
			folders = strings.Join(slices.DeleteFunc(filepath.SplitList(folders), relative), ":")
		default:
			return "", err
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return lookup.Place{Dir: dir}.Find(name, folders)
}
