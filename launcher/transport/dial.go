// Package transport chooses the transport to each host and connects by it: SSH, a remote shell,
// srun, or none on this machine.
package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/keep"
	"github.com/gorun/gorun/internal/net/retry"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/transport/kept"
	"github.com/gorun/gorun/launcher/transport/rsh"
	"github.com/gorun/gorun/launcher/transport/srun"
	"github.com/gorun/gorun/ssh"
)

// retryPause returns the wait before the next attempt at a host that refuses connections or has no
// address yet; ok is false after the last attempt. In a pod of Kubernetes, whose pods start in any
// order, attempts go on until the start timeout.
func retryPause(tries int, inPod bool) (pause time.Duration, ok bool) {
	pauses := []time.Duration{300 * time.Millisecond, 700 * time.Millisecond, 1500 * time.Millisecond}
	if last := len(pauses) - 1; tries > last {
		return pauses[last], inPod
	}
	return pauses[tries], true
}

// busyTime is how long gorun retries a host whose sshd drops connections because it has too many.
const busyTime = 20 * time.Second

// busyPause returns the wait before the next attempt at a busy host; ok is false after busyTime.
// luck, between 0 and 1, spreads the attempts of many launchers.
func busyPause(tries int, since time.Duration, luck float64) (pause time.Duration, ok bool) {
	longest := min(100*time.Millisecond<<min(tries, 4), time.Second)
	return time.Duration((0.5 + luck) * float64(longest)), since < busyTime
}

// Dialer returns the function that connects to hosts by the transport that o selects.
func Dialer(o Options) (launcher.Dialer, error) {
	way, err := NewRoutes(o)
	if err != nil {
		return nil, err
	}
	return way.Dialer(o), nil
}

// routes selects the transport to a host: srun for nodes of the Slurm job, local for this machine,
// else SSH or the user's program.
type routes struct {
	launcher string // value of --launcher
	hostname string
	steps    *srun.Steps // nil outside a Slurm job
	program  []string    // remote shell and its arguments; nil: the built-in SSH client
}

// NewRoutes finds the transports that o and the environment offer. It refuses files of o that
// cannot be what they are for.
func NewRoutes(o Options) (routes, error) {
	if o.SSHConfig != "" && o.SSHConfig != "none" {
		file, err := trust.Open(o.SSHConfig)
		if err != nil {
			hint := usage.FileHint(o.SSHConfig, "check the name after -F, or in GORUN_SSH_CONFIG")
			return routes{}, usage.Errorf(hint, "open the SSH configuration: %w", err)
		}
		file.Close()
	}
	for _, path := range o.Identities {
		if err := ssh.CheckIdentity(path); err != nil {
			hint := cmp.Or(usage.Hint(err), usage.FileHint(path, "name a private key after -i"))
			return routes{}, usage.Errorf(hint, "-i %w", err)
		}
	}
	hostname, _ := os.Hostname()
	var steps *srun.Steps
	if method := o.Method(); method == "auto" || method == "srun" {
		var err error
		if steps, err = srun.FindSteps(method == "srun", os.LookupEnv, os.Environ()); err != nil {
			return routes{}, err
		}
	}
	if steps != nil && o.Together != nil {
		steps.StartTogether(*o.Together)
	}
	program, err := findRemoteShell(o, lookPath)
	return routes{o.Launcher, hostname, steps, program}, err
}

// Of returns local, srun, ssh, or the name of the program.
func (r routes) Of(h hostfile.Host) string {
	switch {
	case r.launcher == "local" || IsLocal(h, ""):
		return "local"
	case r.launcher == "srun" || r.steps != nil && r.steps.Job.Has(h.Name) && h.User == "" && h.Port == 0:
		return "srun"
	case IsLocal(h, r.hostname):
		return "local"
	case r.program != nil:
		return filepath.Base(r.program[0])
	}
	return "ssh"
}

func (r routes) Dialer(o Options) launcher.Dialer {
	resolver := &ssh.Resolver{}
	keepers := &kept.Finder{Place: control.FindPlace(os.Getenv), Trace: o.trace}
	return func(ctx context.Context, h hostfile.Host) (launcher.Host, error) {
		host, err := r.dial(ctx, o, h, resolver, keepers)
		if err != nil {
			return nil, r.outside(h, err)
		}
		return host, nil
	}
}

// outside adds to the error of a host that is no node of the surrounding Slurm job which nodes are.
func (r routes) outside(h hostfile.Host, err error) error {
	if r.steps == nil || r.steps.Job.Has(h.Name) {
		return err
	}
	return &outsideError{err, r.steps.Job}
}

// outsideError is the error of a host that is no node of the surrounding Slurm job.
type outsideError struct {
	error
	job srun.Job
}

func (e *outsideError) Error() string {
	return fmt.Sprintf("%v; Slurm job %s has %s", e.error, e.job.ID, prose.List(e.job.Names()))
}

func (e *outsideError) Unwrap() error { return e.error }

// Hint is that of the error, or else which nodes may be named.
func (e *outsideError) Hint() string {
	var unresolved *ssh.UnresolvedError
	names := e.job.Names()
	switch {
	case !errors.As(e.error, &unresolved):
		return usage.Hint(e.error)
	case len(names) > 6:
		return "name nodes of the job with -H"
	}
	return "name nodes of the job: -H " + strings.Join(names, ",")
}

func (r routes) dial(ctx context.Context, o Options, h hostfile.Host, resolver *ssh.Resolver,
	keepers *kept.Finder) (launcher.Host, error) {
	switch by := r.Of(h); {
	case by == "local":
		return launcher.Local{}, nil
	case by == "srun":
		return r.steps.Dial(ctx, h)
	case r.program == nil:
		config := o.sshConfig(h, resolver)
		if !o.NoKept {
			if host := keepers.Dial(ctx, config); host != nil {
				o.trace("%s: connected already, by %s", h.Name, host.Keeper())
				return host, nil
			}
		}
		return dialSSH(ctx, o, h, config)
	case r.launcher == "system-ssh":
		return dialProgram(ctx, systemSSHConfig(r.program, o, h))
	case r.launcher == "kubexec":
		config, err := kubexecConfig(r.program, h)
		if err != nil {
			return nil, err
		}
		return dialProgram(ctx, config)
	}
	return dialProgram(ctx, rshConfig(r.program, h))
}

// dialProgram connects to a host by a program and retries while the host comes up.
func dialProgram(ctx context.Context, config rsh.Config) (launcher.Host, error) {
	return untilUp(ctx, func(ctx context.Context) (launcher.Host, error) { return rsh.Dial(ctx, config) })
}

// Kept returns how a keeper keeps a host, and the id of a gorun that keeps it already, found by
// finder, or "". ok is false if the built-in SSH client does not reach it.
func (r routes) Kept(ctx context.Context, o Options, h hostfile.Host, resolver *ssh.Resolver,
	finder *kept.Finder) (k keep.Host, by string, ok bool, err error) {
	if r.Of(h) != "ssh" || r.program != nil {
		return k, "", false, nil
	}
	config := o.sshConfig(h, resolver)
	k = keep.Host{Name: h.Name, Dial: func(ctx context.Context) (keep.Conn, error) {
		fresh := config
		fresh.Resolver = nil // the configuration may have changed by then
		if now, err := ssh.Identity(ctx, fresh); err != nil || now != k.Identity {
			return nil, cmp.Or(err, errChanged)
		}
		return untilUp(ctx, func(ctx context.Context) (keep.Conn, error) { return ssh.Dial(ctx, fresh) })
	}}
	if k.Identity, err = ssh.Identity(ctx, config); err != nil {
		return k, "", true, err
	}
	if host := finder.Dial(ctx, config); host != nil {
		by = host.Keeper()
		host.Close()
	}
	return k, by, true, nil
}

var errChanged = errors.New("its SSH settings or keys have changed since gorun up")

// dialSSH connects by the built-in client and retries while the host comes up. If the host denies
// access, it tries the system's ssh where that knows another way.
func dialSSH(ctx context.Context, o Options, h hostfile.Host, config ssh.Config) (launcher.Host, error) {
	host, err := untilUp(ctx, func(ctx context.Context) (launcher.Host, error) { return ssh.Dial(ctx, config) })
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

// untilUp retries dial while the host comes up or is busy.
func untilUp[H any](ctx context.Context, dial func(context.Context) (H, error)) (H, error) {
	_, inPod := os.LookupEnv("KUBERNETES_SERVICE_HOST")
	began := time.Now()
	return retry.Do(ctx, func(n int, err error) (time.Duration, bool) {
		switch {
		case mayComeUp(err):
			return retryPause(n, inPod)
		case isBusy(err):
			return busyPause(n, time.Since(began), rand.Float64())
		}
		return 0, false
	}, dial)
}

// mayComeUp reports an error of a host that may be booting.
func mayComeUp(err error) bool {
	var refused *ssh.RefusedError
	var unresolved *ssh.UnresolvedError
	var unreached *rsh.UnreachableError
	return errors.As(err, &refused) || errors.As(err, &unresolved) && unresolved.Temporary() ||
		errors.As(err, &unreached) && unreached.Temporary()
}

// isBusy reports that sshd dropped the connection before it identified itself.
func isBusy(err error) bool {
	var dropped *ssh.HandshakeError
	return errors.As(err, &dropped) && dropped.Temporary()
}
