// Package survey asks hosts what they are without a job: whether an agent can start there, and
// which GPUs they have.
package survey

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/connect"
	"github.com/gorun/gorun/launcher/session"
)

// Options are how hosts are reached.
type Options struct {
	Dial         func(ctx context.Context, h hostfile.Host) (session.Host, error)
	Exe          session.Executable
	StartTimeout time.Duration // until an agent has answered; 0: no limit
	Trace        func(format string, args ...any)
	// GPUProgram returns gorun-gpu, compressed, for a host that lacks it; empty: there is none.
	// nil: it is never sent.
	GPUProgram func() ([]byte, error)
}

// Checked is the result of checking one host.
type Checked struct {
	Host    hostfile.Host
	Machine string        // the host's own name
	Address string        // host:port where its sshd was reached; "" where there is none
	Took    time.Duration // until an agent had answered there, or the host had failed
	Err     error         // nil: an agent of this build can be started there
}

// Check connects to all hosts side by side and starts an agent on each. Nothing is left running.
// The answer is in the order of hosts.
func Check(ctx context.Context, hosts []hostfile.Host, opts Options) []Checked {
	checked := make([]Checked, len(hosts))
	onAll(ctx, hosts, opts, func(ctx context.Context, i int, conn session.Host, stager *session.Stager) error {
		checked[i].Address = sshdAddress(conn)
		s, err := stager.Agent(ctx, conn, session.Identity{})
		if err == nil {
			defer s.Close()
			checked[i].Machine = prose.Printable(s.Hello.Hostname)
		}
		return err
	}, func(i int, took time.Duration, err error) {
		checked[i].Host = hosts[i]
		checked[i].Took = took
		checked[i].Err = err
	})
	return checked
}

// onAll connects to all hosts in parallel and calls look with each connection. It reports the
// outcome and duration for every host to done, also for unreachable ones.
func onAll(ctx context.Context, hosts []hostfile.Host, opts Options,
	look func(ctx context.Context, i int, conn session.Host, stager *session.Stager) error,
	done func(i int, took time.Duration, err error)) {
	if opts.StartTimeout > 0 {
		late := fmt.Errorf("no answer within %v (--start-timeout)", opts.StartTimeout)
		timed, cancel := context.WithTimeoutCause(ctx, opts.StartTimeout, late)
		defer cancel()
		ctx = timed
	}
	stager := session.NewStager(opts.Exe, opts.StartTimeout, opts.Trace)
	names := make([]string, len(hosts))
	took := make([]time.Duration, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	for i, err := range connect.EveryHost(ctx, names, nil, connect.Step{Do: func(ctx context.Context, i int) error {
		began := time.Now()
		defer func() { took[i] = time.Since(began) }()
		conn, err := opts.Dial(ctx, hosts[i])
		if err != nil {
			return err
		}
		defer conn.Close()
		return look(ctx, i, conn, stager)
	}}) {
		done(i, took[i], err)
	}
}

// sshdAddress is the far end of a connection that knows it.
func sshdAddress(conn session.Host) string {
	known, ok := conn.(interface{ RemoteAddr() net.Addr })
	if !ok {
		return ""
	}
	if addr := known.RemoteAddr(); addr != nil {
		return addr.String()
	}
	return ""
}
