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

// dialer turns hosts into connections. It is the one place that joins launcher and ssh.
func dialer(o *runOptions) (launcher.Dialer, error) {
	way, err := newRoutes(o)
	if err != nil {
		return nil, err
	}
	return way.dialer(o), nil
}

// routes knows how hosts are reached: the nodes of a Slurm job by srun, this machine by nothing (local),
// others by ssh.
type routes struct {
	launcher string // as --launcher says
	hostname string
	steps    *steps // nil: no Slurm job
}

func newRoutes(o *runOptions) (routes, error) {
	hostname, _ := os.Hostname()
	steps, err := findSteps(o.launcher, os.LookupEnv, os.Environ())
	return routes{o.launcher, hostname, steps}, err
}

// of is local, srun or ssh.
func (r routes) of(h hostfile.Host) string {
	switch {
	case r.launcher == "local" || isLocal(h, ""):
		return "local"
	case r.launcher == "srun" || r.steps != nil && r.steps.job.has(h.Name) && h.User == "" && h.Port == 0:
		return "srun"
	case isLocal(h, r.hostname):
		return "local"
	}
	return "ssh"
}

func (r routes) dialer(o *runOptions) launcher.Dialer {
	return func(ctx context.Context, h hostfile.Host) (launcher.Host, error) {
		switch r.of(h) {
		case "local":
			return launcher.Local{}, nil
		case "srun":
			return r.steps.dial(h)
		}
		return dialSSH(ctx, o, h)
	}
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
