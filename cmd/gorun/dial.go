package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/ssh"
)

// retryPauses are the waits before another try at a host that refuses or whose
// name is not known (yet): a machine or a pod that is just coming up.
func retryPauses() []time.Duration {
	return []time.Duration{300 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond}
}

// dialer turns hosts into connections: the nodes of a Slurm job by srun, this machine
// by nothing, others by SSH. It is the one place that joins launcher and ssh.
func dialer(o *runOptions) (launcher.Dialer, error) {
	hostname, _ := os.Hostname()
	if o.sshConfig != "" && o.sshConfig != "none" {
		if _, err := os.Stat(o.sshConfig); err != nil {
			return nil, usagef("check the name after -F, or in GORUN_SSH_CONFIG", "open the SSH configuration: %w", err)
		}
	}
	steps, err := findSteps(o.launcher, os.LookupEnv, os.Environ())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, h hostfile.Host) (launcher.Host, error) {
		switch {
		case o.launcher == "local" || isLocal(h, ""):
			return launcher.Local{}, nil
		case o.launcher == "srun" || steps != nil && steps.job.has(h.Name) && h.User == "" && h.Port == 0:
			return steps.dial(h)
		case isLocal(h, hostname):
			return launcher.Local{}, nil
		}
		return dialSSH(ctx, o, h)
	}, nil
}

// dialSSH connects to h, which may be coming up.
func dialSSH(ctx context.Context, o *runOptions, h hostfile.Host) (launcher.Host, error) {
	config := ssh.Config{Host: h.Name, User: h.User, Port: h.Port, ConfigFile: o.sshConfig,
		IdentityFiles: o.identities, AcceptNew: o.hostKeys == "accept-new"}
	if config.Port == 0 {
		config.Port = o.sshPort
	}
	pauses := retryPauses()
	for {
		client, err := ssh.Dial(ctx, config)
		if err == nil {
			return client, nil
		}
		if !mayComeUp(err) || len(pauses) == 0 {
			return nil, err
		}
		select {
		case <-time.After(pauses[0]):
			pauses = pauses[1:]
		case <-ctx.Done():
			return nil, err
		}
	}
}

func mayComeUp(err error) bool {
	var refused *ssh.RefusedError
	var unresolved *ssh.UnresolvedError
	return errors.As(err, &refused) || errors.As(err, &unresolved)
}

// isLocal reports whether h is this machine, named without anything that asks
// for a login.
func isLocal(h hostfile.Host, hostname string) bool {
	if h.User != "" || h.Port != 0 || h.Name == "" {
		return false
	}
	switch h.Name {
	case "localhost", "127.0.0.1", "::1", hostname:
		return true
	}
	return false
}
