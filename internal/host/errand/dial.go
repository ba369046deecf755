package errand

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// dialTime bounds the connection with a port of this host.
const dialTime = 10 * time.Second

// dial connects the errand's input and output with a TCP port of this host's loopback addresses,
// until the port's side has ended.
func (e *errand) dial() error {
	if e.ask.Port < 1 || e.ask.Port > 65535 {
		return fmt.Errorf("there is no port %d", e.ask.Port)
	}
	life, end := context.WithCancel(context.Background())
	defer end()
	go func() {
		select {
		case <-e.dropped: // the end of the agent waits for this errand
		case <-life.Done():
		}
		end()
	}()
	ctx, cancel := context.WithTimeout(life, dialTime)
	defer cancel()
	conn, err := dialLoopback(ctx, strconv.Itoa(e.ask.Port))
	if err != nil {
		return err
	}
	context.AfterFunc(life, func() { conn.Close() })
	var work sync.WaitGroup
	work.Go(func() { e.feed(conn, func() { _ = conn.(*net.TCPConn).CloseWrite() }) })
	e.pump(conn, wire.TellOut)
	end()
	e.endInput()
	work.Wait()
	return nil
}

// dialLoopback returns a connection with a port that listens on IPv4 or IPv6.
func dialLoopback(ctx context.Context, port string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	if err == nil {
		return conn, nil
	}
	if conn, other := dialer.DialContext(ctx, "tcp", net.JoinHostPort("::1", port)); other == nil {
		return conn, nil
	}
	var failed *net.OpError // repeats the address
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return nil, fmt.Errorf("connect with port %s: %w", port, err)
}
