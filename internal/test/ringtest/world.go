package ringtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/kv"
	"github.com/gorun/gorun/internal/rankenv"
)

// World is an elastic job in memory: what the launcher and the agents are to its ranks, who have a door of their own each, the
// agents' own. An epoch begins when enough processes are there and all of them wait for one. It is over when a rank fails.
type World struct {
	Job       string
	Transport string // how ranks are told to move data

	tb      testing.TB
	mu      sync.Mutex
	need    int       // processes without which no epoch begins
	members []*Member // in the order in which they came, which is that of ranks
	store   *kv.Store
	number  int           // of the last epoch
	over    bool          // there will be no more
	changed chan struct{} // closed when any of this is, and replaced
	began   []time.Time   // the epochs
	lost    []Abort
}

// Member is a process of a World.
type Member struct {
	world   *World
	host    string
	door    *kv.Door
	token   string
	waiting bool
	round   *round // the epoch it was let into last
	rank    int
}

// round is an epoch.
type round struct {
	number      int
	key         []byte
	members     []*Member
	fences      map[string]*fence
	aborted     chan struct{}
	info        []byte
	interrupted chan struct{}
	joined      int
}

// NewWorld makes a job without processes.
func NewWorld(tb testing.TB, need int) *World {
	return &World{Job: "job-" + rand.Text(), Transport: "tcp", need: need, tb: tb, store: kv.NewStore(), changed: make(chan struct{})}
}

// Add makes a place for a process on a host. If an epoch is under way its ranks are interrupted when the process waits.
func (w *World) Add(host string) *Member {
	m := &Member{world: w, host: host, token: rand.Text()}
	door, err := kv.OpenDoor(map[string]kv.JobInfo{m.token: {Job: w.Job}}, m)
	if err != nil {
		w.tb.Fatal(err)
	}
	m.door = door
	w.tb.Cleanup(door.Close)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = append(w.members, m)
	return m
}

// Environ is the environment of the process, as NAME=value.
func (m *Member) Environ() []string {
	r := rankenv.Rank{Job: m.world.Job, Epoch: 1, Size: 1, LocalSize: 1, CrossSize: 1, Host: m.host, Addr: "127.0.0.1",
		Agent: m.door.Addr(), Token: m.token, Elastic: true}
	return append(r.Environ(), "RING_TRANSPORT="+m.world.Transport)
}

// Want changes how many processes there must be for an epoch to begin.
func (w *World) Want(need int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.need = need
}

// Ended says that the process is no more. With a cause it has failed, and its epoch is over.
func (w *World) Ended(m *Member, cause string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.members = slices.DeleteFunc(w.members, func(o *Member) bool { return o == m })
	if cause != "" && m.round != nil && m.round.number == w.number {
		m.round.abort(Abort{Rank: m.rank, Host: m.host, Cause: cause})
	}
	w.next()
}

// Fail ends the epoch by the fault of no rank.
func (w *World) Fail(cause string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.members {
		if m.round != nil && m.round.number == w.number {
			m.round.abort(Abort{Rank: -1, Cause: cause})
		}
	}
}

// Interrupt has the ranks of the epoch ask for another one.
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

// End says that there will be no more epochs.
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

// Began are the times at which the epochs so far began.
func (w *World) Began() []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.began)
}

// Joined is how many ranks of the last epoch have said that they met.
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

// next begins an epoch if it is time to.
func (w *World) next() {
	defer w.wake()
	if len(w.members) < w.need || len(w.members) == 0 || slices.ContainsFunc(w.members, func(m *Member) bool { return !m.waiting }) {
		return
	}
	w.number++
	w.began = append(w.began, time.Now())
	r := &round{number: w.number, key: make([]byte, 32), members: slices.Clone(w.members), fences: map[string]*fence{},
		aborted: make(chan struct{}), interrupted: make(chan struct{})}
	rand.Read(r.key)
	for rank, m := range r.members {
		m.round, m.rank, m.waiting = r, rank, false
	}
}

func (r *round) abort(a Abort) {
	if !closed(r.aborted) {
		r.info, _ = json.Marshal(a) // of strings and numbers
		close(r.aborted)
	}
}

// Park waits for an epoch after left, as an agent does.
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

// info is who the member is in its epoch.
func (m *Member) info() kv.JobInfo {
	r := m.round
	p := &kv.Place{Addrs: []string{"127.0.0.1"}}
	var hosts []string // that have a rank of this local rank
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
	p.LocalSize, p.Nodes = local[m.host], len(local)
	p.CrossRank, p.CrossSize = slices.Index(hosts, m.host), len(hosts)
	return kv.JobInfo{Job: m.world.Job, Epoch: r.number, Rank: m.rank, Size: len(r.members), Key: r.key, Place: p}
}

// Joined counts.
func (m *Member) Joined(epoch int) {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.round.number == epoch {
		m.round.joined++
	}
}

// Interrupted is closed when the ranks of the epoch are to leave it.
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

// Fence waits for the ranks of the epoch.
func (m *Member) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	m.world.mu.Lock()
	r := m.round
	if r == nil {
		m.world.mu.Unlock()
		return nil, fmt.Errorf("no epoch has begun")
	}
	f := r.fences[name]
	if f == nil {
		f = &fence{posted: map[int]bool{}, values: make([][]byte, len(r.members)), full: make(chan struct{})}
		r.fences[name] = f
	}
	if f.posted[rank] {
		m.world.mu.Unlock()
		return nil, fmt.Errorf("rank %d was in fence %s before", rank, name)
	}
	f.posted[rank], f.values[rank] = true, value
	if len(f.posted) == len(r.members) {
		close(f.full)
	}
	m.world.mu.Unlock()
	select {
	case <-f.full:
		return f.values, nil
	case <-r.aborted:
		return nil, kv.ErrAborted
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Put and Get are the store's.
func (m *Member) Put(key string, value []byte) error { return m.world.store.Put(key, value) }

// Get is the store's.
func (m *Member) Get(ctx context.Context, key string, wait time.Duration) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	value, found := m.world.store.Get(ctx, key)
	return value, found, nil
}

// Lost ends the epoch of who says so, if it is the last one.
func (m *Member) Lost(by, rank int, cause string) {
	w := m.world
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, Abort{Rank: rank, Host: m.round.members[rank].host, Cause: cause + " (said rank " + strconv.Itoa(by) + ")"})
	m.round.abort(w.lost[len(w.lost)-1])
}

// Note logs it.
func (m *Member) Note(by int, text string) { m.world.tb.Logf("rank %d notes: %s", by, text) }

// Aborted is closed when the member's epoch is over by a failure.
func (m *Member) Aborted() <-chan struct{} {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.round == nil {
		return nil
	}
	return m.round.aborted
}

// AbortInfo says why.
func (m *Member) AbortInfo() []byte {
	m.world.mu.Lock()
	defer m.world.mu.Unlock()
	if m.round == nil || m.round.info == nil {
		return []byte(`{"rank":-1,"cause":"the job is over"}`)
	}
	return m.round.info
}
