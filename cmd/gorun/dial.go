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

// dialer turns hosts into connections: this machine without SSH, others with
// it. It is the one place that joins launcher and ssh.
func dialer(o *runOptions) launcher.Dialer {
	hostname, _ := os.Hostname()
	return func(ctx context.Context, h hostfile.Host) (launcher.Host, error) {
		if isLocal(h, hostname) {
			return launcher.Local{}, nil
		}
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
}

func mayComeUp(err error) bool {
	var refused *ssh.RefusedError
	var unresolved *ssh.UnresolvedError
	return errors.As(err, &refused) || errors.As(err, &unresolved)
}

// isLocal reports whether h is this machine, named without anything that asks
// for a login.
func isLocal(h hostfile.Host, hostname string) bool {
	if h.User != "" || h.Port != 0 {
		return false
	}
	switch h.Name {
	case "localhost", "127.0.0.1", "::1", hostname:
		return true
	}
	return false
}
