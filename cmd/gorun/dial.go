package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/remoteshell"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/ssh"
)

// retryPause is the wait before the next try at a host that refuses or whose name is not
// known (yet): a machine that is just coming up. ok is false where that was all. Pods of a Kubernetes
// job come up in any order and when their images are there: in a pod gorun tries until it is
// out of time to start. It is pure.
func retryPause(tries int, inPod bool) (pause time.Duration, ok bool) {
	pauses := []time.Duration{300 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond}
	if last := len(pauses) - 1; tries > last {
		return pauses[last], inPod
	}
	return pauses[tries], true
}

// dialer turns hosts into connections: the nodes of a Slurm job by srun, this machine
// by nothing, others by SSH or by the program that the user wants instead. It is the one place
// that joins launcher and ssh.
func dialer(o *runOptions) (launcher.Dialer, error) {
	hostname, _ := os.Hostname()
	steps, err := findSteps(o.method(), os.LookupEnv, os.Environ())
	if err != nil {
		return nil, err
	}
	program, err := findRemoteShell(o, lookPath)
	if err != nil {
		return nil, err
	}
	resolver := &ssh.Resolver{}
	return func(ctx context.Context, h hostfile.Host) (launcher.Host, error) {
		switch {
		case o.launcher == "local" || isLocal(h, ""):
			return launcher.Local{}, nil
		case o.launcher == "srun" || steps != nil && steps.job.has(h.Name) && h.User == "" && h.Port == 0:
			return steps.dial(h)
		case isLocal(h, hostname):
			return launcher.Local{}, nil
		case program != nil && o.launcher == "system-ssh":
			return dialProgram(ctx, systemSSHConfig(program, o, h))
		case program != nil:
			return dialProgram(ctx, rshConfig(program, h))
		}
		return dialSSH(ctx, o, h, resolver)
	}, nil
}

// dialProgram connects to a host, which may be coming up, by a program.
func dialProgram(ctx context.Context, config remoteshell.Config) (launcher.Host, error) {
	return untilUp(ctx, func() (launcher.Host, error) { return remoteshell.Dial(ctx, config) })
}

// dialSSH connects to h, which may be coming up. Where gorun's own client is not let in and the system's
// ssh may be, that one goes.
func dialSSH(ctx context.Context, o *runOptions, h hostfile.Host, resolver *ssh.Resolver) (launcher.Host, error) {
	config := ssh.Config{Host: h.Name, User: h.User, Port: h.Port, ConfigFile: o.sshConfig,
		IdentityFiles: o.identities, Resolver: resolver, AcceptNew: o.hostKeys == "accept-new"}
	if config.Port == 0 {
		config.Port = o.sshPort
	}
	host, err := untilUp(ctx, func() (launcher.Host, error) { return ssh.Dial(ctx, config) })
	var denied *ssh.AuthError
	if !errors.As(err, &denied) {
		return host, err
	}
	program, missing := systemSSH(lookPath)
	kerberos := mayHaveTicket(os.LookupEnv, os.Getuid(), fileExists)
	other, ok := otherWay(denied, program, o, h, kerberos)
	if missing != nil || !ok {
		return nil, err
	}
	host, otherErr := dialProgram(ctx, other)
	if otherErr != nil {
		return nil, fmt.Errorf("%w; by the system's ssh: %w", err, otherErr)
	}
	return host, nil
}

// untilUp dials, and again after a while where the host may be coming up.
func untilUp(ctx context.Context, dial func() (launcher.Host, error)) (launcher.Host, error) {
	_, inPod := os.LookupEnv("KUBERNETES_SERVICE_HOST")
	for tries := 0; ; tries++ {
		host, err := dial()
		if err == nil {
			return host, nil
		}
		if !mayComeUp(err) {
			return nil, err
		}
		pause, more := retryPause(tries, inPod)
		if !more {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func mayComeUp(err error) bool {
	var refused *ssh.RefusedError
	var unresolved *ssh.UnresolvedError
	var unreached *remoteshell.UnreachableError
	return errors.As(err, &refused) || errors.As(err, &unresolved) || errors.As(err, &unreached) && unreached.Temporary()
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
