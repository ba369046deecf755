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

// Reach is how hosts are reached.
type Reach struct {
	Dial         func(ctx context.Context, h hostfile.Host) (session.Host, error)
	Exe          session.Executable
	StartTimeout time.Duration                    // until an agent has answered; 0: no limit
	Trace        func(format string, args ...any) // gets details; nil: none are wanted
	Note         func(string)                     // gets one line for the user at a time; nil: none are wanted
	// GPUProgram returns gorun-gpu, compressed, for a host that lacks it; empty: there is none.
	// It is called once for each such host. nil: it is never sent.
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

// Check connects to all hosts in parallel and starts an agent on each. It leaves nothing running.
// The result is in the order of hosts.
func Check(ctx context.Context, hosts []hostfile.Host, reach Reach) []Checked {
	checked := make([]Checked, len(hosts))
	for i, o := range onAll(ctx, hosts, reach, func(_ context.Context, i int, s *session.Session) error {
		checked[i].Machine = prose.Printable(s.Hello.Hostname)
		return nil
	}) {
		checked[i].Host = hosts[i]
		checked[i].Address = o.address
		checked[i].Took = o.took
		checked[i].Err = o.err
	}
	return checked
}

// visit is the state of one host's answer, and then its result.
type visit struct {
	began   time.Time
	conn    session.Host
	agent   *session.Session
	address string        // host:port of its sshd; "": it has none
	took    time.Duration // until the answer or the failure
	err     error
}

// onAll connects to all hosts in parallel and calls ask with a session with each. It leaves nothing
// running. The result is in the order of hosts.
func onAll(ctx context.Context, hosts []hostfile.Host, reach Reach,
	ask func(ctx context.Context, i int, s *session.Session) error) []visit {
	if reach.Trace == nil {
		reach.Trace = func(string, ...any) {}
	}
	if reach.StartTimeout > 0 {
		late := fmt.Errorf("no answer within %v (--start-timeout)", reach.StartTimeout)
		timed, cancel := context.WithTimeoutCause(ctx, reach.StartTimeout, late)
		defer cancel()
		ctx = timed
	}
	stager := session.NewStager(reach.Exe, reach.StartTimeout, reach.Trace, session.NoMeter{})
	stager.Hosts = len(hosts)
	names := make([]string, len(hosts))
	visits := make([]visit, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	dial := func(ctx context.Context, i int) (err error) {
		v := &visits[i]
		v.began = time.Now()
		defer v.stop()
		reach.Trace("%s: connecting", names[i])
		if v.conn, err = reach.Dial(ctx, hosts[i]); err == nil {
			v.address = sshdAddress(v.conn)
		}
		return err
	}
	start := func(ctx context.Context, i int) (err error) {
		v := &visits[i]
		defer v.stop()
		if v.agent, err = stager.Agent(ctx, v.conn, session.Identity{}); err != nil {
			v.conn.Close()
			return err
		}
		reach.Trace("%s: agent %d on %s", names[i], v.agent.Hello.PID, v.agent.Hello.Hostname)
		return nil
	}
	answer := func(ctx context.Context, i int) error {
		v := &visits[i]
		defer v.stop()
		defer v.conn.Close()
		defer v.agent.Close()
		return ask(ctx, i, v.agent)
	}
	for i, err := range connect.EveryHost(ctx, names, reach.Note, connect.Step{Doing: "connecting", Do: dial},
		connect.Step{Doing: "starting its agent", Do: start}, connect.Step{Doing: "answering", Do: answer}) {
		visits[i].err = err
	}
	return visits
}

// stop sets the time that the host has taken so far.
func (v *visit) stop() { v.took = time.Since(v.began) }

// sshdAddress returns the far end of a connection, or "" if it is unknown.
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
