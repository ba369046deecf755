package launcher

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gorun/gorun/hostfile"
)

// Checked is what a look at one host has found.
type Checked struct {
	Host    hostfile.Host
	Machine string        // what the host calls itself
	Address string        // host:port where its sshd was reached; "" where there is none
	Took    time.Duration // until an agent had answered there, or the host had failed
	Err     error         // nil: an agent of this build can be started there
}

// Check connects to all hosts side by side and starts an agent on each, as Run does, with opts' Dial, Exe,
// StartTimeout and Trace. Nothing is left running. The answer is in the order of hosts.
func Check(ctx context.Context, hosts []hostfile.Host, opts Options) []Checked {
	opts.setDefaults()
	if opts.StartTimeout > 0 {
		late := fmt.Errorf("no answer within %v (--start-timeout)", opts.StartTimeout)
		timed, cancel := context.WithTimeoutCause(ctx, opts.StartTimeout, late)
		defer cancel()
		ctx = timed
	}
	stager := newStager(opts)
	checked := make([]Checked, len(hosts))
	limit := make(chan struct{}, dialLimit)
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			checked[i] = check(ctx, h, opts.Dial, stager)
		})
	}
	wg.Wait()
	return checked
}

// check looks at one host.
func check(ctx context.Context, h hostfile.Host, dial Dialer, stager *stager) Checked {
	c, began := Checked{Host: h}, time.Now()
	conn, err := dial(ctx, h)
	if err == nil {
		defer conn.Close()
		c.Address = sshdAddress(conn)
		var s *session
		if s, err = stager.agent(ctx, conn); err == nil {
			defer s.close()
			c.Machine = printable(s.hello.Hostname)
		}
	}
	c.Took, c.Err = time.Since(began), err
	return c
}

// sshdAddress is the far end of a connection that knows it.
func sshdAddress(conn Host) string {
	known, ok := conn.(interface{ RemoteAddr() net.Addr })
	if !ok {
		return ""
	}
	if addr := known.RemoteAddr(); addr != nil {
		return addr.String()
	}
	return ""
}
