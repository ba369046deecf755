package ringtest

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// World is an elastic job in memory. It plays the launcher and the agents to its ranks; each rank
// has a rank server. An epoch begins when enough processes wait for one, and ends when a rank
// fails.
type World struct {
	Job       string
	Transport string // value of RING_TRANSPORT

	tb      testing.TB
	mu      sync.Mutex
	need    int       // processes without which no epoch begins
	members []*Member // order of arrival, and of ranks
	store   *fake.Store
	number  int           // number of the last epoch
	over    bool          // no epoch follows
	changed chan struct{} // closed and replaced when any field above changes
	began   []time.Time   // start of each epoch
	lost    []Abort
}

// Member is a process of a World.
type Member struct {
	world   *World
	host    string
	server  *kv.Server
	token   string
	waiting bool
	round   *round // the last epoch that it joined
	rank    int
}

// round is an epoch.
type round struct {
	*group
	number      int
	key         []byte
	members     []*Member
	interrupted chan struct{}
	joined      int
}

// NewWorld makes a job without processes.
func NewWorld(tb testing.TB, need int) *World {
	return &World{
		Job:       "job-" + rand.Text(),
		Transport: "tcp",
		need:      need,
		tb:        tb,
		store:     fake.NewStore(0),
		changed:   make(chan struct{}),
	}
}

// Add adds a process on a host. When it waits for an epoch, it interrupts the ranks of the current
// one.
func (w *World) Add(host string) *Member {
	m := &Member{world: w, host: host, token: rand.Text()}
	server := must.Get(kv.OpenServer(map[string]kv.JobInfo{m.token: {Job: w.Job}}, m))(w.tb)
	m.server = server
	w.tb.Cleanup(server.Close)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = append(w.members, m)
	return m
}

// Environ returns the environment of the process, as NAME=value.
func (m *Member) Environ() []string {
	r := rankenv.Rank{
		Job:       m.world.Job,
		Epoch:     1,
		Size:      1,
		LocalSize: 1,
		CrossSize: 1,
		Host:      m.host,
		Addr:      "127.0.0.1",
		Agent:     m.server.Addr(),
		Token:     m.token,
		Elastic:   true,
	}
	return append(r.Environ(), "RING_TRANSPORT="+m.world.Transport)
}

// Want sets how many processes an epoch needs.
func (w *World) Want(need int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.need = need
}

// Ended removes a process that has exited. With a cause it has failed, which aborts its epoch.
func (w *World) Ended(m *Member, cause string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = slices.DeleteFunc(w.members, func(o *Member) bool { return o == m })
	if cause != "" && m.round != nil && m.round.number == w.number {
		m.round.abort(Abort{Rank: m.rank, Host: m.host, Cause: cause})
	}
	w.next()
}

// Fail aborts the epoch without blaming a rank.
func (w *World) Fail(cause string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members {
		if m.round != nil && m.round.number == w.number {
			m.round.abort(Abort{Rank: -1, Cause: cause})
		}
	}
}

// Interrupt asks the ranks of the epoch to leave it for another one.
func (w *World) Interrupt() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.interrupt()
}

func (w *World) interrupt() {
	for _, m := range w.members {
		if m.round != nil && m.round.number == w.number && !closed(m.round.interrupted) {
			close(m.round.interrupted)
		}
	}
}

// End aborts the last epoch and lets no other begin.
func (w *World) End(cause string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	for _, m := range w.members {
		if m.round != nil {
			m.round.abort(Abort{Rank: -1, Cause: cause})
		}
	}
	w.wake()
}

// Began returns when each epoch began.
func (w *World) Began() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.began)
}

// Joined returns how many ranks of the last epoch have reported that they met.
func (w *World) Joined() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members {
		if m.round != nil && m.round.number == w.number {
			return m.round.joined
		}
	}
	return 0
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (w *World) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// next begins an epoch if enough processes exist and all wait.
func (w *World) next() {
	defer w.wake()
	if len(w.members) < w.need || len(w.members) == 0 || slices.ContainsFunc(w.members, func(m *Member) bool {
		return !m.waiting
	}) {
		return
	}
	w.number++
	w.began = append(w.began, time.Now())
	r := &round{
		number:      w.number,
		key:         make([]byte, 32),
		members:     slices.Clone(w.members),
		group:       newGroup(len(w.members)),
		interrupted: make(chan struct{}),
	}
	rand.Read(r.key)
	for rank, m := range r.members {
		m.round = r
		m.rank = rank
		m.waiting = false
	}
}

// Park implements [kv.Elastic]: it waits for an epoch after left.
func (m *Member) Park(ctx context.Context, left int) (kv.JobInfo, error) {
	w := m.world
	w.mu.Lock()
	defer w.mu.Unlock()
	m.waiting = true
	if m.round == nil {
		w.interrupt()
	}
	w.next()
	for m.round == nil || m.round.number <= left {
		changed := w.changed
		if w.over {
			return kv.JobInfo{}, kv.ErrAborted
		}
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		w.mu.Lock()
		if ctx.Err() != nil {
			m.waiting = false
			return kv.JobInfo{}, ctx.Err()
		}
	}
	return m.info(), nil
}

// info returns the member's location in its epoch.
func (m *Member) info() kv.JobInfo {
	r := m.round
	p := &kv.Location{Addrs: []string{"127.0.0.1"}}
	var hosts []string // hosts that have this local rank
	local := map[string]int{}
	for rank, o := range r.members {
		if rank == m.rank {
			p.LocalRank = local[o.host]
		}
		local[o.host]++
	}
	for _, o := range r.members {
		if local[o.host] > p.LocalRank && !slices.Contains(hosts, o.host) {
			hosts = append(hosts, o.host)
		}
	}
	p.LocalSize = local[m.host]
	p.Nodes = len(local)
	p.CrossRank = slices.Index(hosts, m.host)
	p.CrossSize = len(hosts)
	return kv.JobInfo{
		Job:      m.world.Job,
		Epoch:    r.number,
		Rank:     m.rank,
		Size:     len(r.members),
		Key:      r.key,
		Location: p,
	}
}

// Joined implements [kv.Elastic].
func (m *Member) Joined(epoch int) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.round.number == epoch {
		m.round.joined++
	}
}

// Interrupted implements [kv.Elastic].
func (m *Member) Interrupted(epoch int) <-chan struct{} {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.round != nil && m.round.number == epoch {
		return m.round.interrupted
	}
	over := make(chan struct{})
	close(over)
	return over
}

// Fence implements [kv.Backend] with the ranks of the member's epoch.
func (m *Member) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	m.world.mu.Lock()
	r := m.round
	m.world.mu.Unlock()
	if r == nil {
		return nil, errors.New("no epoch has begun")
	}
	return r.Fence(ctx, name, rank, value)
}

// Put implements [kv.Backend].
func (m *Member) Put(key string, value []byte) error { return m.world.store.Put(key, value) }

// Get implements [kv.Backend].
func (m *Member) Get(ctx context.Context, key string, wait time.Duration) ([]byte, bool, error) {
	return m.world.store.Get(ctx, key, wait)
}

// Lost implements [kv.Backend]: it aborts the epoch of the rank that reports it.
func (m *Member) Lost(by, rank int, cause string) {
	w := m.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, Abort{Rank: rank, Host: m.round.members[rank].host, Cause: cause + " (said rank " +
		strconv.Itoa(by) + ")"})
	m.round.abort(w.lost[len(w.lost)-1])
}

// Left implements [kv.Backend]: the epoch goes on.
func (m *Member) Left(by, rank int, cause string) {
	m.world.tb.Logf("rank %d: rank %d has left: %s", by, rank, cause)
}

// AbortJob implements [kv.Backend] as Lost does.
func (m *Member) AbortJob(by, rank int, cause string) { m.Lost(by, rank, cause) }

// Note implements [kv.Backend].
func (m *Member) Note(by int, note kv.Note) { m.world.tb.Logf("rank %d notes: %s", by, note.Text) }

// Aborted implements [kv.Backend] with the member's epoch.
func (m *Member) Aborted() <-chan struct{} {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.round == nil {
		return nil
	}
	return m.round.aborted
}

// AbortInfo implements [kv.Backend].
func (m *Member) AbortInfo() []byte {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.round != nil {
		if info := m.round.AbortInfo(); info != nil {
			return info
		}
	}
	return []byte(`{"rank":-1,"cause":"the job is over"}`)
}
