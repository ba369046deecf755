package kv

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Limits of one job's store.
const (
	MaxKey   = 1 << 10
	MaxValue = 1 << 20
	maxBytes = 256 << 20

	entryCost = 256 // approximate overhead of a key in bytes
)

// Store maps keys to values. Safe for concurrent use.
type Store struct {
	mu     sync.Mutex
	values map[string]entry
	bytes  int
	held   map[string]int   // bytes by who has put them
	limit  int              // bytes
	waits  map[string]*wait // waiting requests by absent key
	asked  map[[2]int]bool  // whether the second host has asked the first one
	asking map[int]int      // number of hosts that have asked one
}

// entry is a value, and who has put it.
type entry struct {
	by    string
	value []byte
}

// wait is the shared wait of all requests for one absent key.
type wait struct {
	put     chan struct{} // closed when the key is put
	waiting int
}

// NewStore returns an empty Store.
func NewStore() *Store {
	return &Store{
		values: map[string]entry{},
		held:   map[string]int{},
		limit:  maxBytes,
		waits:  map[string]*wait{},
		asked:  map[[2]int]bool{},
		asking: map[int]int{},
	}
}

// Put stores a value of a host under key, over any earlier one. The value is kept, not copied. A
// host may hold as much as it leaves free: a hostile one could fill the store otherwise, and
// others would fail.
func (s *Store) Put(by, key string, value []byte) error {
	if err := CheckSize(key, value); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cost := costOf(key, value)
	own := s.held[by] + cost
	all := s.bytes + cost
	grows := true
	if old, known := s.values[key]; known {
		was := costOf(key, old.value)
		all -= was
		if old.by == by {
			own -= was
			grows = cost > was
		}
	}
	if grows && own > s.limit-all {
		return fmt.Errorf("put %.40q: the job's store is full for this host (%d keys of all hosts, %d bytes)", key,
			len(s.values), s.bytes)
	}
	s.drop(key)
	s.set(key, entry{by, value})
	return nil
}

// CheckSize returns an error for a key or a value that a store does not take.
func CheckSize(key string, value []byte) error {
	if len(key) > MaxKey || len(value) > MaxValue {
		return fmt.Errorf("key %.40q of %d bytes and value of %d, at most %d and %d allowed", key, len(key),
			len(value), MaxKey, MaxValue)
	}
	return nil
}

// set stores a key that is not there, and wakes who waits for it.
func (s *Store) set(key string, e entry) {
	cost := costOf(key, e.value)
	s.values[key] = e
	s.bytes += cost
	s.held[e.by] += cost
	if w := s.waits[key]; w != nil {
		close(w.put)
		delete(s.waits, key)
	}
}

// Get returns the value under key. If there is none yet it waits for one until
// ctx ends; found is false then.
func (s *Store) Get(ctx context.Context, key string) (value []byte, found bool) {
	for {
		s.mu.Lock()
		var e entry
		e, found = s.values[key]
		value = e.value
		if found || ctx.Err() != nil {
			s.mu.Unlock()
			return value, found
		}
		w := s.waits[key]
		if w == nil {
			w = &wait{put: make(chan struct{})}
			s.waits[key] = w
		}
		w.waiting++
		s.mu.Unlock()
		select {
		case <-w.put:
		case <-ctx.Done():
			s.forget(key, w)
			return nil, false
		}
	}
}

// DeleteFunc deletes the keys for which del returns true. Requests for absent keys wait on.
func (s *Store) DeleteFunc(del func(key string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.values {
		if del(key) {
			s.drop(key)
		}
	}
}

// IsOver reports whether a key is of the form "epoch/NUMBER/...", which stock Horovod's ranks
// publish, and NUMBER is less than begins.
func IsOver(key string, begins int) bool {
	rest, _ := strings.CutPrefix(key, "epoch/")
	text, _, whole := strings.Cut(rest, "/")
	number, err := strconv.Atoi(text)
	return len(rest) < len(key) && whole && err == nil && number < begins
}

// drop removes a key, if it is there.
func (s *Store) drop(key string) {
	e, known := s.values[key]
	if !known {
		return
	}
	cost := costOf(key, e.value)
	s.bytes -= cost
	s.held[e.by] -= cost
	delete(s.values, key)
}

// costOf returns the bytes that count for a key and its value.
func costOf(key string, value []byte) int { return len(key) + entryCost + len(value) }

// forget ends one wait. A key for which no request waits any more is dropped.
func (s *Store) forget(key string, w *wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.waiting--; w.waiting == 0 && s.waits[key] == w {
		delete(s.waits, key)
	}
}
