// Package ringtest runs the ranks of a job inside a test, without gorun. It plays the launcher and the agents behind
// the agents' own rank server, and starts ranks as goroutines or makes the environment of processes.
package ringtest

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gorun/gorun/internal/kv"
	"github.com/gorun/gorun/internal/rankenv"
)

// Host is the name of the host that all ranks of a Door are on, unless it has several.
const Host = "testhost"

// Door is a job with a fixed set of ranks, in memory. Change its fields before the first rank joins. It ends with the test.
type Door struct {
	Job       string
	Epoch     int
	Key       []byte
	Size      int
	Transport string // for RING_TRANSPORT
	// Hosts is the number of ranks on each host, in rank order; nil is one host. All hosts are this machine,
	// but ranks take them for different ones.
	Hosts []int

	open      func() *kv.Server // opens the rank server on the first call
	listeners []net.Listener
	relays    sync.WaitGroup
	*group
	store

	own    sync.Mutex
	onPost func(name string, rank int, value []byte) []byte
	named  map[int]string // host by rank
	lost   []Abort
}

// NewDoor makes a job of size ranks.
func NewDoor(tb testing.TB, size int) *Door {
	d := &Door{
		Job: "job-" + rand.Text(), Key: make([]byte, 32), Size: size, Transport: "tcp",
		group: newGroup(size), store: store{kv.NewStore()}, named: map[int]string{},
	}
	rand.Read(d.Key)
	d.open = sync.OnceValue(func() *kv.Server {
		ranks := map[string]kv.JobInfo{}
		for rank := range d.Size {
			ranks[token(rank)] = kv.JobInfo{Job: d.Job, Epoch: d.Epoch, Rank: rank, Size: d.Size, Key: d.Key}
		}
		server, err := kv.OpenServer(ranks, d)
		if err != nil {
			tb.Fatal(err)
		}
		return server
	})
	tb.Cleanup(d.Close)
	return d
}

func token(rank int) string { return "token-" + strconv.Itoa(rank) }

// OnPost sets a function that replaces the value that a rank brings to a fence. The rank waits meanwhile.
func (d *Door) OnPost(change func(name string, rank int, value []byte) []byte) {
	d.own.Lock()
	defer d.own.Unlock()
	d.onPost = change
}

// Listen relays connections that l accepts to the rank server, until the job ends. l must have the rank server's
// address, in another network.
func (d *Door) Listen(l net.Listener) {
	d.listeners = append(d.listeners, l)
	d.relays.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			d.relays.Go(func() {
				defer from.Close()
				to, err := net.Dial("tcp", d.open().Addr())
				if err != nil {
					return
				}
				go func() {
					_, _ = io.Copy(to, from)
					to.Close()
				}()
				_, _ = io.Copy(from, to)
			})
		}
	})
}

// Close closes the rank server and every connection to it, as when an agent is killed.
func (d *Door) Close() {
	for _, l := range d.listeners {
		l.Close()
	}
	d.open().Close()
	d.relays.Wait()
}

// Rank returns the location of a rank that listens on addr, an IP address.
func (d *Door) Rank(rank int, addr string) rankenv.Rank {
	r := rankenv.Rank{
		Job: d.Job, Epoch: d.Epoch, Rank: rank, Size: d.Size, LocalRank: rank, LocalSize: d.Size, CrossSize: 1,
		Host: Host, Addr: addr, Agent: d.open().Addr(), Token: token(rank),
	}
	first := 0
	for i, n := range d.Hosts {
		if rank >= first && rank < first+n {
			r.Host, r.LocalRank, r.LocalSize = Host+strconv.Itoa(i), rank-first, n
		}
		first += n
	}
	d.own.Lock()
	d.named[rank] = r.Host
	d.own.Unlock()
	if d.Hosts == nil {
		return r
	}
	r.CrossRank, r.CrossSize = 0, 0
	for i, n := range d.Hosts {
		if n <= r.LocalRank {
			continue
		}
		if r.Host == Host+strconv.Itoa(i) {
			r.CrossRank = r.CrossSize
		}
		r.CrossSize++
	}
	return r
}

// Environ returns the environment of a rank on 127.0.0.1, as NAME=value.
func (d *Door) Environ(rank int) []string {
	return append(d.Rank(rank, "127.0.0.1").Environ(), "RING_TRANSPORT="+d.Transport)
}

// Lookup is [os.LookupEnv] in environ.
func Lookup(environ []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, entry := range environ {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

// Abort ends the job, as the launcher does when a rank fails. Only the first call has an effect.
func (d *Door) Abort(a Abort) { d.abort(a) }

// Losses returns the reports of lost ranks so far, oldest first.
func (d *Door) Losses() []Abort {
	d.own.Lock()
	defer d.own.Unlock()
	return slices.Clone(d.lost)
}

// Fence implements [kv.Backend].
func (d *Door) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	d.own.Lock()
	change := d.onPost
	d.own.Unlock()
	if change != nil {
		value = change(name, rank, value)
	}
	return d.group.fence(ctx, name, rank, value)
}

// Lost implements [kv.Backend]: it aborts the job.
func (d *Door) Lost(_, rank int, cause string) {
	d.own.Lock()
	a := Abort{Rank: rank, Host: d.named[rank], Cause: cause}
	d.lost = append(d.lost, a)
	d.own.Unlock()
	d.abort(a)
}

// Note implements [kv.Backend]: a fixed job prints no notes.
func (d *Door) Note(int, string) {}
