package examine

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher"
)

// connections keeps SSH connections open from one job of an examination to the next. It is safe for
// concurrent use.
type connections struct {
	mu   sync.Mutex
	open map[string]launcher.Host // key: name of the host
}

// dial returns an open connection, or dials one with how and calls fresh with it before its first
// use.
func (c *connections) dial(how launcher.Dialer, fresh func(ctx context.Context, h hostfile.Host,
	conn launcher.Host) error) launcher.Dialer {
	return func(ctx context.Context, h hostfile.Host) (launcher.Host, error) {
		c.mu.Lock()
		conn := c.open[h.Name]
		delete(c.open, h.Name) // one job at a time
		c.mu.Unlock()
		if conn == nil {
			var err error
			if conn, err = how(ctx, h); err != nil {
				return nil, err
			}
			if err = fresh(ctx, h, conn); err != nil {
				return nil, errors.Join(err, conn.Close())
			}
		}
		if !reusable(conn) {
			return conn, nil
		}
		own, cancel := context.WithCancel(context.Background())
		return &borrowed{
			Host: conn,
			from: c,
			name: h.Name,
			over: own,
			end:  cancel,
		}, nil
	}
}

// reusable reports whether conn is an SSH connection without a resident agent, which the wrapper
// would hide from a later job.
func reusable(conn launcher.Host) bool {
	known, ok := conn.(interface{ BySSH() bool })
	_, resident := conn.(interface{ AgentBuild() string })
	return ok && known.BySSH() && !resident
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var work sync.WaitGroup
	for name, conn := range c.open {
		work.Go(func() { _ = conn.Close() })
		delete(c.open, name)
	}
	work.Wait()
}

// borrowed is a connection in use by one job. Close returns it if nothing runs there any more, or
// else closes it.
type borrowed struct {
	launcher.Host
	from *connections
	name string
	over context.Context
	end  context.CancelFunc

	mu     sync.Mutex
	runs   int
	failed bool
	closed bool
}

func (b *borrowed) BySSH() bool { return true }

func (b *borrowed) RemoteAddr() net.Addr {
	if known, ok := b.Host.(interface{ RemoteAddr() net.Addr }); ok {
		return known.RemoteAddr()
	}
	return nil
}

func (b *borrowed) Run(ctx context.Context, argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(b.over, cancel)()
	b.count(1, nil)
	err := b.Host.Run(ctx, argv, stdin, stdout, stderr)
	b.count(-1, err)
	return err
}

// count adds n to the running commands. A connection is not used again if a command on it ended
// without an exit code.
func (b *borrowed) count(n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs += n
	var exit interface{ ExitCode() int }
	if err != nil && !errors.As(err, &exit) {
		b.failed = true
	}
}

func (b *borrowed) Close() error {
	b.mu.Lock()
	idle := b.runs == 0 && !b.failed
	again := b.closed
	b.closed = true
	b.mu.Unlock()
	if again {
		return nil
	}
	b.end()
	b.from.mu.Lock()
	_, taken := b.from.open[b.name]
	if idle && !taken {
		b.from.open[b.name] = b.Host
		b.from.mu.Unlock()
		return nil
	}
	b.from.mu.Unlock()
	return b.Host.Close()
}
