package gloo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Store is the part of the job's store that the rendezvous needs.
type Store interface {
	Put(key string, value []byte) error
	// Get waits for the key at most wait, and while ctx lasts.
	Get(ctx context.Context, key string, wait time.Duration) (value []byte, found bool, err error)
}

// Limits of one host.
const (
	maxScopes = 1 << 10
	maxName   = 255     // bytes of a scope's name or a key
	maxRanks  = 1 << 14 // ranks of a scope
	maxValues = 4 * maxRanks
	maxValue  = 64 << 10 // bytes of a value other than addresses
)

// forever is the wait for a key that lasts as long as the context.
const forever = time.Duration(math.MaxInt64)

// Host answers the ranks of one host. It is safe for concurrent use.
type Host struct {
	store Store
	ctx   context.Context // context of the job
	wg    sync.WaitGroup  // pending requests to the store
	apart bool            // whether other Hosts serve the other ranks of this host

	buffers *sync.Pool

	mu     sync.Mutex
	scopes map[string]*scope // scopes by key
}

// NewHost answers from store until ctx ends.
func NewHost(ctx context.Context, store Store) *Host {
	return &Host{
		store:   store,
		ctx:     ctx,
		scopes:  map[string]*scope{},
		buffers: newBuffers(),
	}
}

// Wait waits for all requests to the store. The context must have ended, and the ranks' ports must
// be closed.
func (h *Host) Wait() { h.wg.Wait() }

// Rank answers one process of this host.
type Rank struct {
	host *Host

	mu    sync.Mutex
	times map[string]int // number of times that the rank has left each scope, by name
}

// Rank returns the Rank of a process that is about to start.
func (h *Host) Rank() *Rank { return &Rank{host: h, times: map[string]int{}} }

// scope is a group of ranks that exchange addresses once: of the job, of a host, or of a process
// set.
type scope struct {
	key     string             // name and number of earlier scopes of that name
	local   bool               // whether all ranks of the scope are on this host
	size    int                // ranks; 0: no rank of this host has published its addresses
	named   bool               // whether ranks publish their hosts' names (Horovod 0.23 and later)
	members map[*Rank]int      // number in the scope of each rank of this host that has published and not left
	values  map[string]*future // values by key
	all     *future            // done when the addresses of all ranks have arrived
}

// future is a value that may not have arrived yet.
type future struct {
	done  chan struct{}
	once  sync.Once
	value []byte
	err   error

	checking sync.Once
	damage   error
}

func newFuture() *future { return &future{done: make(chan struct{})} }

// set sets the value unless it is set.
func (f *future) set(value []byte, err error) {
	f.once.Do(func() {
		f.value = value
		f.err = err
		close(f.done)
	})
}

// offer sets the value unless it is set, and reports whether it did.
func (f *future) offer(value []byte) bool {
	f.set(value, nil)
	<-f.done
	return bytes.Equal(f.value, value)
}

// get returns the value. If it must wait, until ctx ends, it first calls wait.
func (f *future) get(ctx context.Context, wait func()) ([]byte, error) {
	select {
	case <-f.done:
		return f.value, f.err
	default:
		wait()
	}
	select {
	case <-f.done:
		return f.value, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

var (
	errTooMany = errors.New("too many scopes")
	errTwice   = errors.New("it is published already")
)

// open returns r's scope of a name, and makes it if needed. The caller holds the host's lock.
func (r *Rank) open(name string) (*scope, error) {
	key := r.key(name)
	s := r.host.scopes[key]
	if s == nil {
		if len(r.host.scopes) >= maxScopes {
			return nil, errTooMany
		}
		s = &scope{
			key:     key,
			local:   !r.host.apart && strings.HasPrefix(name, "local_"),
			members: map[*Rank]int{},
			values:  map[string]*future{},
		}
		r.host.scopes[key] = s
	}
	return s, nil
}

// key returns the key prefix of r's scope of a name in the store.
func (r *Rank) key(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return "gloo/" + strconv.Itoa(r.times[name]) + "/" + name
}

// put publishes a value for all ranks of the scope.
func (r *Rank) put(name, key string, value []byte) error {
	s, value, err := r.publish(name, key, value)
	if err != nil || s.local {
		return err
	}
	return r.host.store.Put(s.key+"/"+key, value)
}

// publish stores a value for the ranks of this host, and returns its packed form for other hosts.
func (r *Rank) publish(name, key string, value []byte) (*scope, []byte, error) {
	r.host.mu.Lock()
	defer r.host.mu.Unlock()
	s, err := r.open(name)
	if err != nil {
		return nil, nil, err
	}
	rank, isRank := rankOf(key)
	switch {
	case !isRank && len(value) > maxValue:
		return nil, nil, fmt.Errorf("a value of %d bytes", len(value))
	case isRank:
		if value, err = s.join(r, rank, value); err != nil {
			return nil, nil, err
		}
		if s.all == nil {
			s.all = newFuture()
			r.host.wg.Go(func() { r.host.gather(s) })
		}
	}
	if s.values[key] == nil && len(s.values) >= maxValues {
		return nil, nil, errTooMany
	}
	s.named = s.named || isHostName(key)
	if s.values[key] == nil {
		s.values[key] = newFuture()
	}
	if !s.values[key].offer(value) {
		return nil, nil, errTwice
	}
	return s, value, nil
}

// join records where a rank awaits each other rank of the scope; their number is the size of the
// scope. Publishing the same again, after a lost answer, is harmless.
func (s *scope) join(r *Rank, rank int, body []byte) (packed []byte, err error) {
	if packed, err = pack(body); err != nil {
		return nil, err
	}
	size := len(body)/recordSize + 1
	switch {
	case rank >= size || size > maxRanks:
		return nil, fmt.Errorf("rank %d of %d", rank, size)
	case s.size != 0 && s.size != size:
		return nil, fmt.Errorf("%d ranks, and %d before", size, s.size)
	}
	for other, is := range s.members {
		if (other == r) != (is == rank) {
			return nil, errTwice
		}
	}
	s.members[r] = rank
	if s.size == 0 {
		s.size = size
	}
	return packed, nil
}

// gather fetches the addresses of all ranks of a scope.
func (h *Host) gather(s *scope) {
	var first error
	for rank := range s.size {
		if _, err := h.fetch(s, addressOf(rank)).get(h.ctx, func() {}); err != nil && first == nil {
			first = err
		}
	}
	s.all.set(nil, first)
}

// fetch requests a value once for all ranks of this host.
func (h *Host) fetch(s *scope, key string) *future {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := s.values[key]
	if f != nil {
		return f
	}
	f = newFuture()
	s.values[key] = f
	if s.local {
		return f // a rank of this host will publish it
	}
	most := maxValue
	if _, isRank := rankOf(key); isRank {
		most = s.size * (1 + recordSize)
	}
	h.wg.Go(func() {
		value, _, err := h.store.Get(h.ctx, s.key+"/"+key, forever)
		if len(value) > most { // another host may say anything, for each rank
			value = nil
			err = errCut
		}
		f.set(value, err)
	})
	return f
}

// get returns the value of a key. If it must wait for another rank, it first calls wait. found is
// false for a key that no rank will publish, and for other ranks' addresses while r has not
// published its own.
func (r *Rank) get(ctx context.Context, name, key string, wait func()) (a answer, found bool, err error) {
	h := r.host
	h.mu.Lock()
	s := h.scopes[r.key(name)]
	var size int
	var named, member bool
	if s != nil {
		size = s.size
		named = s.named
		_, member = s.members[r]
	}
	h.mu.Unlock()
	rank, isRank := rankOf(key)
	switch {
	case s == nil, isRank && (rank >= size || !member), !isRank && !(named && isHostName(key)):
		return a, false, nil
	case isRank:
		if _, err := s.all.get(ctx, wait); err != nil {
			return a, false, err
		}
	}
	a = ok()
	value := h.fetch(s, key)
	if a.value, err = value.get(ctx, wait); err != nil {
		return a, false, err
	}
	if isRank {
		a.records = size - 1
		value.checking.Do(func() { value.damage = checkRecords(value.value, size-1) })
	}
	return a, value.damage == nil, value.damage
}

// leave ends a rank's part in a scope. The last rank of this host ends the scope.
func (r *Rank) leave(name, key string) {
	rank, isRank := rankOf(key)
	h := r.host
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.scopes[r.key(name)]
	if s == nil || !isRank {
		return
	}
	if own, is := s.members[r]; !is || own != rank {
		return
	}
	if delete(s.members, r); len(s.members) == 0 {
		delete(h.scopes, s.key)
	}
	r.mu.Lock()
	r.times[name]++
	r.mu.Unlock()
}

// rankOf returns the rank that a key names, in the client's spelling.
func rankOf(key string) (rank int, is bool) {
	rank, err := strconv.Atoi(key)
	return rank, err == nil && rank >= 0 && addressOf(rank) == key
}

// isHostName reports whether a rank publishes its host's name under key.
func isHostName(key string) bool {
	number, is := strings.CutPrefix(key, "rank_")
	rank, isRank := rankOf(number)
	return is && isRank && rank < maxRanks
}
