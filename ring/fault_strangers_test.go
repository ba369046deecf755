package ring_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// card is what a rank tells the others of its address, as join.go writes it.
type card struct {
	Host    string           `json:"host"`
	Addrs   []netip.AddrPort `json:"addrs"`
	Stripes int              `json:"stripes"`
	Guard   string           `json:"guard,omitempty"`
	Cert    []byte           `json:"cert,omitempty"`
}

// isAddr reports whether a fence is the one where ranks tell their addresses.
func isAddr(name string) bool { return strings.HasSuffix(name, "/addr") }

// greetings are what programs say that meet a port which is not theirs.
func greetings() map[string][]byte {
	random := make([]byte, 4096)
	rand.Read(random)
	return map[string][]byte{
		"nothing": nil,
		"http":    []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"http2":   []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		"tls":     {22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3, 1, 2, 3, 4},
		"ssh":     []byte("SSH-2.0-OpenSSH_9.2\r\n"),
		"redis":   []byte("*1\r\n$4\r\nPING\r\n"),
		"smtp":    []byte("EHLO x\r\n"),
		"mqtt":    {0x10, 12, 0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60, 0, 0},
		"sql":     {0, 0, 0, 8, 4, 210, 22, 47},                                  // asks for TLS
		"rdp":     {3, 0, 0, 19, 14, 224, 0, 0, 0, 0, 0, 1, 0, 8, 0, 3, 0, 0, 0}, // desktop
		"hydra":   []byte("HYD\x00cmd=init pmi_version=1 pmi_subversion=1\n"),
		"rank":    []byte("gorunrng\x00\x02"), // and no more
		"zeros":   make([]byte, 4096),
		"random":  random,
	}
}

// strangers harass addresses until they are told to stop.
type strangers struct {
	stop    chan struct{}
	running sync.WaitGroup
}

// at begins to harass addr; it returns when each greeting has been said, and 300
// connections are open that say nothing or one byte at a time.
func (s *strangers) at(addr string) error {
	for range 300 {
		conn, err := knock(addr)
		if err != nil {
			return err
		}
		s.running.Go(func() {
			defer conn.Close()
			for {
				select {
				case <-s.stop:
					return
				case <-time.After(20 * time.Millisecond): // a slow one, by its nature
					if _, err := conn.Write([]byte{'g'}); err != nil {
						return
					}
				}
			}
		})
	}
	for _, text := range greetings() {
		if err := greet(addr, text); err != nil {
			return err
		}
		s.running.Go(func() {
			for {
				select {
				case <-s.stop:
					return
				default:
					if greet(addr, text) != nil {
						return // the listeners are closed
					}
				}
			}
		})
	}
	return nil
}

// knock connects to addr. A kernel that is flooded may drop the first packets
// of a connection, and tries again ever later: another attempt is faster.
func knock(addr string) (conn net.Conn, err error) {
	for range 10 {
		if conn, err = net.DialTimeout("tcp", addr, time.Second); !os.IsTimeout(err) {
			break
		}
	}
	return conn, err
}

func greet(addr string, text []byte) error {
	conn, err := knock(addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, _ = conn.Write(text) // it may be cut off at once
	if text != nil {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		if n, err := io.Copy(io.Discard, conn); n > 0 {
			return fmt.Errorf("a stranger got an answer of %d bytes, %w", n, err)
		}
	}
	return nil
}

func (s *strangers) end() {
	close(s.stop)
	s.running.Wait()
}

// All kinds of strangers connect while the ranks join, and while they work. The last
// rank is held back until all of them are there.
// It is row R19 of the fault matrix.
func TestUnauthenticatedPeersDoNotDisturb(t *testing.T) {
	must.HaveTime(t)
	for _, l := range layouts() {
		if l.name == "shm" {
			continue // has no listeners
		}
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			s := &strangers{stop: make(chan struct{})}
			defer s.end()
			d := l.job(t)
			troubled := make(chan error, l.size)
			d.OnPost(func(name string, rank int, value []byte) []byte {
				if isAddr(name) && rank == l.size-1 {
					var mine card
					err := json.Unmarshal(value, &mine)
					if err == nil {
						err = s.at(mine.Addrs[0].String())
					}
					troubled <- err
				}
				return value
			})
			begin := time.Now()
			comms := l.join(t, d)
			if took := time.Since(begin); took > 10*time.Second {
				t.Errorf("joining took %v", took)
			}
			must.OK(t, <-troubled)
			for _, f := range specs() {
				err := ringtest.Each(l.size, func(rank int) error {
					return f.once(comms[rank], position{n: 3000}, synchronously)
				})
				check.OK(t, err, f.name)
			}
		})
	}
}

// The ranks of a job call the listeners of another job, first or only.
// It is row R17 of the fault matrix.
func TestCrossedJobsStayApart(t *testing.T) {
	onLayouts(t, func(t *testing.T, l layout) {
		if l.name == "shm" {
			return
		}
		t.Parallel()
		other := l.job(t)
		others := make(chan card, l.size)
		own := l.job(t)
		proceed := make(chan struct{})
		other.OnPost(func(name string, rank int, value []byte) []byte {
			if isAddr(name) && rank == l.size-1 {
				var c card
				if json.Unmarshal(value, &c) == nil {
					others <- c
				}
				<-proceed // its listeners stay open until the first job has tried them
			}
			return value
		})
		own.OnPost(func(name string, rank int, value []byte) []byte {
			if !isAddr(name) || rank != l.size-1 {
				return value
			}
			var mine card
			if json.Unmarshal(value, &mine) != nil {
				return value
			}
			crossed := <-others
			mine.Addrs = append(crossed.Addrs, mine.Addrs...)
			text, _ := json.Marshal(mine)
			return text
		})
		ringtest.All(t, 2, func(i int) error {
			d := []*ringtest.Job{own, other}[i]
			comms := make([]*ring.Comm, l.size)
			defer closeAll(comms)
			err := ringtest.Each(l.size, func(rank int) (err error) {
				comms[rank], err = l.enter(ctx, d, rank)
				return err
			})
			if i == 0 {
				close(proceed)
			}
			if err != nil {
				return err
			}
			return ringtest.Each(l.size, func(rank int) error {
				return specOf("allreduce").once(comms[rank], position{n: 3000}, synchronously)
			})
		})
	})
}

// Ranks of an earlier epoch of the same job, with the same key, are not let in.
// It is row R18 of the fault matrix.
func TestStaleEpochIsRejected(t *testing.T) {
	l := over("tcp", 2)
	now := l.job(t)
	old := l.job(t)
	old.ID = now.ID
	old.Key = now.Key
	now.Epoch = 1
	addr := make(chan []byte, 1)
	tried := make(chan struct{})
	now.OnPost(func(name string, rank int, value []byte) []byte {
		if isAddr(name) && rank == 1 {
			addr <- value
			<-tried
		}
		return value
	})
	old.OnPost(func(name string, rank int, value []byte) []byte {
		if isAddr(name) && rank == 1 {
			return <-addr // the address list of the epoch that has begun
		}
		return value
	})
	ringtest.All(t, 2, func(i int) error {
		if i == 0 {
			defer close(tried)
			return ringtest.Each(2, func(rank int) error {
				short, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
				c, err := l.enter(short, old, rank)
				if err == nil {
					c.Close()
					return errors.New("a rank of an old epoch got in")
				}
				return nil
			})
		}
		comms := make([]*ring.Comm, 2)
		defer closeAll(comms)
		err := ringtest.Each(2, func(rank int) (err error) {
			comms[rank], err = l.enter(ctx, now, rank)
			return err
		})
		if err != nil {
			return err
		}
		return ringtest.Each(2, func(rank int) error { return ring.Barrier(ctx, comms[rank]) })
	})
}

// Two processes that say they are the same rank: one is refused, and never joins.
// It is row R18 of the fault matrix.
func TestDuplicateRankIsRejected(t *testing.T) {
	onLayouts(t, func(t *testing.T, l layout) {
		d := l.job(t)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		comms := make([]*ring.Comm, l.size+1)
		defer closeAll(comms)
		refused := make(chan error, 2)
		err := ringtest.Each(l.size+1, func(i int) error {
			c, err := l.enter(short, d, i%l.size)
			comms[i] = c
			if err != nil && strings.Contains(err.Error(), "already done once by this rank") {
				refused <- err
				return nil
			}
			return err
		})
		check.That(t, len(refused) != 0, "both were let in")
		if err != nil && len(refused) < 2 {
			t.Log(err) // the two took turns at the fences, so neither can join
		}
	})
}
