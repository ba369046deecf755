// Package ringtest runs the ranks of a job inside a test, without gorun. It plays the launcher and
// the agents behind the agents' own rank server, and starts ranks as goroutines or makes the
// environment of processes.
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

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/test/must"
)

// Host is the name of the host that all ranks of a Job are on, unless it has several.
const Host = "testhost"

// Job is a job with a fixed set of ranks, in memory. Change its fields before the first rank joins.
// It ends with the test.
type Job struct {
	ID        string
	Epoch     int
	Key       []byte
	Size      int
	Transport string // value of RING_TRANSPORT
	// Hosts is the number of ranks on each host, in rank order; nil is one host. All hosts are this
	// machine, but ranks take them for different ones.
	Hosts []int

	open      func() *kv.Server // opens the rank server on the first call
	listeners []net.Listener
	relays    sync.WaitGroup
	*group

	own    sync.Mutex
	onPost func(name string, rank int, value []byte) []byte
	onPut  func(key string)
	named  map[int]string // host by rank
	lost   []Abort
	left   []Left
	notes  []string
}

// NewJob makes a job of size ranks.
func NewJob(tb testing.TB, size int) *Job {
	j := &Job{
		ID:        "job-" + rand.Text(),
		Key:       make([]byte, 32),
		Size:      size,
		Transport: "tcp",
		group:     newGroup(size),
		named:     map[int]string{},
	}
	rand.Read(j.Key)
	j.open = sync.OnceValue(func() *kv.Server {
		ranks := map[string]kv.JobInfo{}
		for rank := range j.Size {
			ranks[token(rank)] = kv.JobInfo{
				Job:   j.ID,
				Epoch: j.Epoch,
				Rank:  rank,
				Size:  j.Size,
				Key:   j.Key,
			}
		}
		return must.Get(kv.OpenServer(ranks, j))(tb)
	})
	tb.Cleanup(j.Close)
	return j
}

func token(rank int) string { return "token-" + strconv.Itoa(rank) }

// OnPost sets a function that replaces the value that a rank brings to a fence. The rank waits
// meanwhile.
func (j *Job) OnPost(change func(name string, rank int, value []byte) []byte) {
	j.own.Lock()
	defer j.own.Unlock()
	j.onPost = change
}

// OnPut sets a function that is called when a rank has put a key.
func (j *Job) OnPut(notice func(key string)) {
	j.own.Lock()
	defer j.own.Unlock()
	j.onPut = notice
}

// Listen relays connections that l accepts to the rank server, until the job ends. l must have the
// rank server's address, in another network.
func (j *Job) Listen(l net.Listener) {
	j.listeners = append(j.listeners, l)
	j.relays.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			j.relays.Go(func() {
				defer from.Close()
				to, err := net.Dial("tcp", j.open().Addr())
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
func (j *Job) Close() {
	for _, l := range j.listeners {
		l.Close()
	}
	j.open().Close()
	j.relays.Wait()
}

// Rank returns the location of a rank that listens on addr, an IP address.
func (j *Job) Rank(rank int, addr string) rankenv.Rank {
	r := rankenv.Rank{
		Job:       j.ID,
		Epoch:     j.Epoch,
		Rank:      rank,
		Size:      j.Size,
		LocalRank: rank,
		LocalSize: j.Size,
		CrossSize: 1,
		Host:      Host,
		Addr:      addr,
		Agent:     j.open().Addr(),
		Token:     token(rank),
	}
	first := 0
	for i, n := range j.Hosts {
		if rank >= first && rank < first+n {
			r.Host = Host + strconv.Itoa(i)
			r.LocalRank = rank - first
			r.LocalSize = n
		}
		first += n
	}
	j.own.Lock()
	j.named[rank] = r.Host
	j.own.Unlock()
	if j.Hosts == nil {
		return r
	}
	r.CrossRank = 0
	r.CrossSize = 0
	for i, n := range j.Hosts {
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
func (j *Job) Environ(rank int) []string {
	return append(j.Rank(rank, "127.0.0.1").Environ(), "RING_TRANSPORT="+j.Transport)
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
func (j *Job) Abort(a Abort) { j.abort(a) }

// Losses returns the reports of lost ranks so far, oldest first.
func (j *Job) Losses() []Abort {
	j.own.Lock()
	defer j.own.Unlock()
	return slices.Clone(j.lost)
}

// Left is a report of rank By that a call failed because Rank had left.
type Left struct {
	By, Rank int
	Cause    string
}

// Leaves returns the reports of ranks that have left so far, oldest first.
func (j *Job) Leaves() []Left {
	j.own.Lock()
	defer j.own.Unlock()
	return slices.Clone(j.left)
}

// Fence implements [kv.Backend].
func (j *Job) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	j.own.Lock()
	change := j.onPost
	j.own.Unlock()
	if change != nil {
		value = change(name, rank, value)
	}
	return j.group.Fence(ctx, name, rank, value)
}

// Put implements [kv.Backend].
func (j *Job) Put(key string, value []byte) error {
	err := j.group.Put(key, value)
	j.own.Lock()
	notice := j.onPut
	j.own.Unlock()
	if notice != nil {
		notice(key)
	}
	return err
}

// Lost implements [kv.Backend]: it aborts the job.
func (j *Job) Lost(_, rank int, cause string) {
	j.own.Lock()
	a := Abort{Rank: rank, Host: j.named[rank], Cause: cause}
	j.lost = append(j.lost, a)
	j.own.Unlock()
	j.abort(a)
}

// AbortJob implements [kv.Backend] as Lost does.
func (j *Job) AbortJob(by, rank int, cause string) { j.Lost(by, rank, cause) }

// Left implements [kv.Backend]: it only records the report.
func (j *Job) Left(by, rank int, cause string) {
	j.own.Lock()
	defer j.own.Unlock()
	j.left = append(j.left, Left{By: by, Rank: rank, Cause: cause})
}

// Note implements [kv.Backend]: it only keeps the text.
func (j *Job) Note(_ int, note kv.Note) {
	j.own.Lock()
	defer j.own.Unlock()
	j.notes = append(j.notes, note.Text)
}

// Notes returns what ranks have noted so far, oldest first.
func (j *Job) Notes() []string {
	j.own.Lock()
	defer j.own.Unlock()
	return slices.Clone(j.notes)
}
