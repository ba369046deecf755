package bench

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/ring"
)

const (
	joinTimeout  = 10 * time.Second // limit for both ends to connect
	proofTimeout = 2 * time.Second  // limit for a connection to prove that it knows the nonce
	inline       = 64 << 10         // bytes written before any are read, since the buffers hold them
	nonceSize    = 16
	helloSize    = nonceSize + 64 // nonce and address
	minSwaps     = 2              // least number of swaps in a measurement
)

// wire is one end of a plain TCP connection between two ranks: the yardstick for what a network, or
// loopback, can carry both ways at once. It writes and reads whole vectors. conn is nil on ranks
// that have no end of it.
type wire struct {
	conn    net.Conn
	leads   bool // whether this end decides the number of swaps
	out, in []byte
	begin   chan int // sizes for the writing goroutine
	sent    chan error
}

// newWire connects rank 0 and the first rank of another host, or of this one if there is no other.
// All ranks of c call it. The wire uses the memory of the benchmark, so that the two figures can be
// compared.
func newWire(ctx context.Context, c *ring.Comm, memory [2][]byte) (*wire, error) {
	peer, local, err := opposite(ctx, c)
	if err != nil {
		return nil, err
	}
	w := &wire{leads: c.Rank() == 0, in: memory[0], out: memory[1]}
	hello := make([]byte, helloSize)
	var l net.Listener
	if w.leads {
		if l, err = listen(ctx, local, hello); err != nil {
			return nil, err
		}
		defer l.Close()
	}
	if err := ring.Broadcast(ctx, c, hello, 0); err != nil {
		return nil, err
	}
	switch c.Rank() {
	case 0:
		w.conn, err = accept(ctx, l, hello[:nonceSize])
	case peer:
		w.conn, err = dial(ctx, local, hello)
	default:
		return w, nil
	}
	if err != nil {
		return nil, err
	}
	w.begin = make(chan int)
	w.sent = make(chan error)
	go func() {
		for size := range w.begin {
			_, err := w.conn.Write(w.out[:size])
			w.sent <- err
		}
	}()
	return w, nil
}

// opposite returns the rank that is the other end of rank 0's wire, and whether they are on one
// host.
func opposite(ctx context.Context, c *ring.Comm) (peer int, local bool, err error) {
	hosts := make([]int64, 2*c.Size())
	if err := ring.AllGather(ctx, c, hosts, []int64{int64(c.LocalRank()), int64(c.CrossRank())}); err != nil {
		return 0, false, err
	}
	for rank := range c.Size() {
		if hosts[2*rank] == 0 && hosts[2*rank+1] == 1 {
			return rank, false, nil
		}
	}
	return 1, true, nil
}

// ownAddr returns this host's address for the wire.
func ownAddr(local bool) string {
	if host := os.Getenv("GORUN_ADDR"); host != "" && !local {
		return host
	}
	return "127.0.0.1"
}

// listen opens a socket and puts a nonce and its address into hello.
func listen(ctx context.Context, local bool, hello []byte) (net.Listener, error) {
	at := net.JoinHostPort(ownAddr(local), "0")
	l, err := (&net.ListenConfig{Control: congestion(local)}).Listen(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	copy(hello[nonceSize:], l.Addr().String())
	_, err = rand.Read(hello[:nonceSize])
	return l, err
}

// accept returns the connection of the rank that knows the nonce. Those of strangers are bounded,
// and hold nobody up.
func accept(ctx context.Context, l net.Listener, nonce []byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	auth, err := authenticator(0, nonce)
	if err != nil {
		return nil, err
	}
	var pending admit.Pending
	var serving sync.WaitGroup
	proven := make(chan net.Conn, 1)
	serving.Go(func() {
		pending.Serve(l, func(conn net.Conn) {
			if !proves(conn, auth) || !pending.Remove(conn) {
				conn.Close()
				return
			}
			select {
			case proven <- conn:
			default: // it came twice
				conn.Close()
			}
		})
	})
	var conn net.Conn
	select {
	case conn = <-proven:
	case <-ctx.Done():
	}
	l.Close()
	pending.Close()
	serving.Wait()
	if conn == nil {
		select {
		case conn = <-proven: // proven at the last moment
			return conn, nil
		default:
		}
		return nil, fmt.Errorf("wait for the other end of the plain socket: %w", context.Cause(ctx))
	}
	return conn, nil
}

// authenticator returns that of an end of the wire, of which 0 listens.
func authenticator(end int, nonce []byte) (*secure.Authenticator, error) {
	self := secure.Identity{Job: "wire", Rank: end, Size: 2}
	return secure.NewPlainAuthenticator(self, 1, [][]byte{nonce, nonce})
}

// proves reports whether the other end of a connection proves in time that it knows the nonce.
func proves(conn net.Conn, auth *secure.Authenticator) bool {
	err := conn.SetDeadline(time.Now().Add(proofTimeout))
	if err == nil {
		_, _, _, err = auth.Accept(conn)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	return err == nil
}

// dial connects to the address in hello, if this rank may connect to what another rank says.
func dial(ctx context.Context, local bool, hello []byte) (net.Conn, error) {
	at, err := netip.ParseAddrPort(string(bytes.TrimRight(hello[nonceSize:], "\x00")))
	if err != nil {
		return nil, err
	}
	own, err := netip.ParseAddr(ownAddr(local))
	if err != nil {
		return nil, err
	}
	if len(secure.Dialable([]netip.AddrPort{at}, []netip.Addr{own})) == 0 {
		return nil, fmt.Errorf("rank 0 listens at %v, to which other ranks do not connect", at)
	}
	auth, err := authenticator(1, hello[:nonceSize])
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	return auth.Reach(ctx, net.Dialer{Control: congestion(local)}, at, 0, 0)
}

// time appends µs of swaps of size bytes to samples, for about as long as the budget. On ranks that
// are no end of the wire it does nothing.
func (w *wire) time(samples []float64, size int, budget time.Duration) ([]float64, error) {
	if w.conn == nil {
		return samples, nil
	}
	begun := time.Now()
	if err := w.swap(size); err != nil {
		return samples, err
	}
	swaps, err := w.agree(min(max(int(budget/max(time.Since(begun), 1)), minSwaps), maxIterations))
	if err != nil {
		return samples, err
	}
	for range swaps {
		begun := time.Now()
		if err := w.swap(size); err != nil {
			return samples, err
		}
		samples = append(samples, micros(begun, 1))
	}
	return samples, nil
}

// agree returns the n of the end that leads.
func (w *wire) agree(n int) (int, error) {
	var word [4]byte
	if w.leads {
		binary.LittleEndian.PutUint32(word[:], uint32(n))
		_, err := w.conn.Write(word[:])
		return n, err
	}
	_, err := io.ReadFull(w.conn, word[:])
	return min(int(binary.LittleEndian.Uint32(word[:])), maxIterations), err
}

// swap sends and receives size bytes at the same time.
func (w *wire) swap(size int) error {
	if size <= inline {
		if _, err := w.conn.Write(w.out[:size]); err != nil {
			return err
		}
		_, err := io.ReadFull(w.conn, w.in[:size])
		return err
	}
	w.begin <- size
	_, err := io.ReadFull(w.conn, w.in[:size])
	if err != nil {
		_ = w.conn.Close() // so that writing ends
	}
	if err = errors.Join(err, <-w.sent); err != nil {
		return fmt.Errorf("plain socket: %w", err)
	}
	return nil
}

func (w *wire) close() error {
	if w.conn == nil {
		return nil
	}
	close(w.begin)
	return w.conn.Close()
}
