package callback

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/net/frames"
	"github.com/gorun/gorun/internal/net/retry"
	"github.com/gorun/gorun/internal/net/secure"
)

const (
	reachTime  = 5 * time.Second // bound on attempts where TCP does not connect
	retryPause = 100 * time.Millisecond
)

// Dial connects to the launcher that issued the ticket, at any of its addresses or at first. It
// retries until ctx ends, but only for reachTime while no address is reachable, as behind a
// firewall.
func Dial(ctx context.Context, t Ticket, first string, hello Hello) (net.Conn, error) {
	id, err := secure.NewCredentials(t.Seed)
	if err != nil {
		return nil, err
	}
	addresses := t.Addresses
	if first != "" && !slices.Contains(addresses, first) {
		addresses = append([]string{first}, addresses...)
	}
	began := time.Now()
	conn, err := retry.Do(ctx, func(_ int, err error) (time.Duration, bool) {
		return retryPause, !isUnreached(err) || time.Since(began) < reachTime
	}, func(ctx context.Context) (net.Conn, error) {
		conn, err := dialAny(ctx, addresses, t.Port, id.TLS(secure.Fingerprint(t.Launcher)))
		if err != nil {
			return nil, err
		}
		if err := announce(conn, hello); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	})
	if err != nil {
		return nil, fmt.Errorf("connect to the launcher at %v, port %d: %w", addresses, t.Port, err)
	}
	return conn, nil
}

// announce sends the hello and waits until the launcher has accepted the host.
func announce(conn net.Conn, hello Hello) error {
	_ = conn.SetDeadline(time.Now().Add(admitTime))
	if err := frames.NewWriter(conn).SendJSON(frames.Begin, hello); err != nil {
		return err
	}
	if _, _, err := frames.Read(conn); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// dialAny returns the first connection whose other end proves the launcher's key. Others are closed
// before they say anything.
func dialAny(ctx context.Context, addresses []string, port int, config *tls.Config) (net.Conn, error) {
	conn, i, errs := secure.Race(ctx, len(addresses), func(ctx context.Context, i int, _ func()) (net.Conn, error) {
		return dialOne(ctx, net.JoinHostPort(addresses[i], fmt.Sprint(port)), config)
	})
	if i >= 0 {
		return conn, nil
	}
	for _, err := range errs {
		if err != nil && !isUnreached(err) {
			return nil, err
		}
	}
	return nil, errors.Join(append(errs, ctx.Err())...)
}

func dialOne(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, admitTime)
	defer cancel()
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: reachTime}, Config: config}
	return dialer.DialContext(ctx, "tcp", address)
}

// isUnreached reports that TCP did not connect.
func isUnreached(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}
