package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
)

// maxForwarded bounds the connections that are forwarded at a time. A host serves some more
// requests, so that the user's other commands still get through.
const maxForwarded = 24

// Port is a port of a rank's host and the one of this machine that leads there; 0: any free one.
type Port struct{ There, Here int }

// ParsePort reads PORT or PORT:LOCAL.
func ParsePort(text string) (p Port, err error) {
	there, here, given := strings.Cut(text, ":")
	p.There, err = strconv.Atoi(there)
	p.Here = p.There
	if given && err == nil {
		p.Here, err = strconv.Atoi(here)
	}
	if err != nil || p.There < 1 || max(p.There, p.Here) > 65535 || p.Here < 0 {
		return Port{}, usage.Errorf("for example gorun forward train 6006, or 6006:8080 for port 8080 here",
			"%q is no port", text)
	}
	return p, nil
}

// forwarding is the ports of one job that this process forwards.
type forwarding struct {
	job     control.Found
	to      control.Exec // rank or host
	host    string
	console *ui.UI
	room    chan struct{} // has an element for each connection
}

// Forward lets programs of this user reach ports of the loopback addresses of a rank's host at
// ports of this machine's, until the job ends.
func Forward(ctx context.Context, place control.Place, name string, to control.Exec, ports []Port,
	console *ui.UI) error {
	f, err := running(ctx, place, name)
	if err != nil {
		return err
	}
	host, err := hostOf(f.Job, to)
	if err != nil {
		return err
	}
	w := &forwarding{
		job:     f,
		to:      to,
		host:    host,
		console: console,
		room:    make(chan struct{}, maxForwarded),
	}
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	for _, port := range ports {
		listeners, err := w.listen(ctx, port)
		if err != nil {
			return err
		}
		for _, l := range listeners {
			context.AfterFunc(ctx, func() { l.Close() })
			serving.Go(func() { w.serve(ctx, l, port.There) })
		}
	}
	if _, err := f.Client.Wait(ctx); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	console.Notef("job %s has ended", f.ID)
	return nil
}

// hostOf returns the host that is meant, which the job must have. Ranks of an elastic job change
// hosts.
func hostOf(job control.Job, to control.Exec) (string, error) {
	for _, h := range job.Hosts {
		if to.Rank < 0 && h.Host == to.Host || slices.Contains(h.Ranks, to.Rank) {
			return h.Host, nil
		}
	}
	switch {
	case job.Elastic && to.Rank < 0: // its gorun knows
		return to.Host, nil
	case to.Rank < 0:
		return "", usage.Errorf("gorun ps lists the hosts of jobs", "no ranks of job %s run on host %q", job.ID,
			to.Host)
	case !job.Elastic:
		if _, err := each([][2]int{{to.Rank, to.Rank}}, job); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("the host of rank %d", to.Rank), nil
}

func (w *forwarding) listen(ctx context.Context, port Port) ([]net.Listener, error) {
	listeners, err := onLoopback(ctx, port.Here)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, usage.Errorf(fmt.Sprintf("take any free port: gorun forward %s %d:0", w.job.ID, port.There),
			"port %d of this machine is in use", port.Here)
	case err != nil:
		return nil, fmt.Errorf("forward port %d: %w", port.There, err)
	}
	w.console.Notef("%s is port %d of %s; Ctrl-C ends this", listeners[0].Addr(), port.There, w.host)
	return listeners, nil
}

// portTries bounds the search for a port that is free on IPv4 and IPv6.
const portTries = 20

// onLoopback listens at a port of both loopback addresses, 0 for any free one: the name localhost
// leads to either, and another user could answer at the one that is free. Without IPv6 it is one
// address.
func onLoopback(ctx context.Context, port int) (listeners []net.Listener, err error) {
	var listen net.ListenConfig
	for range portTries {
		first, err := listen.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, err
		}
		number := first.Addr().(*net.TCPAddr).Port
		second, err := listen.Listen(ctx, "tcp6", net.JoinHostPort("::1", strconv.Itoa(number)))
		switch {
		case err == nil:
			return []net.Listener{first, second}, nil
		case errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT):
			return []net.Listener{first}, nil
		}
		first.Close()
		if port != 0 || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
	}
	return nil, syscall.EADDRINUSE
}

// serve forwards connections until l is closed. It closes those of other users at once: ssh -L
// would let them in.
func (w *forwarding) serve(ctx context.Context, l net.Listener, port int) {
	strangers := admit.NewPending(admit.Bounds{Own: maxForwarded, Other: 4, Elsewhere: 4})
	strangers.Serve(l, func(conn net.Conn) {
		defer conn.Close()
		own := admit.IsTheUsers(conn)
		if !strangers.Remove(conn) || !own {
			return
		}
		select {
		case w.room <- struct{}{}:
			defer func() { <-w.room }()
			w.carry(ctx, conn, port)
		case <-ctx.Done():
		}
	})
}

// carry connects conn with a port of the rank's host until either side ends.
func (w *forwarding) carry(ctx context.Context, conn net.Conn, port int) {
	request := w.to
	request.Port = port
	far, answers, err := w.job.Client.Exec(ctx, request)
	if err != nil {
		if ctx.Err() == nil {
			w.console.Warningf("port %d: %v", port, err)
		}
		return
	}
	stop := context.AfterFunc(ctx, func() {
		conn.Close()
		far.Close()
	})
	defer stop()
	var input sync.WaitGroup
	input.Go(func() { feed(frames.NewWriter(far), conn) })
	_, _ = present(answers, conn, io.Discard, w.console) // the job's end is told once, elsewhere
	conn.Close()
	far.Close()
	input.Wait()
}
