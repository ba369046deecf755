package kv

import (
	"context"
	"fmt"
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
	values map[string][]byte
	bytes  int
	limit  int              // bytes
	waits  map[string]*wait // waiting requests by absent key
}

// wait is the shared wait of all requests for one absent key.
type wait struct {
	put     chan struct{} // closed when the key is put
	waiting int
}

// NewStore returns an empty Store.
func NewStore() *Store {
	return &Store{values: map[string][]byte{}, limit: maxBytes, waits: map[string]*wait{}}
}

// Put stores value under key, over any earlier one. The value is kept, not copied.
func (s *Store) Put(key string, value []byte) error {
	if len(key) > MaxKey || len(value) > MaxValue {
		return fmt.Errorf("put %.40q: key of %d bytes and value of %d, at most %d and %d allowed", key, len(key),
			len(value), MaxKey, MaxValue)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	grown := s.bytes + len(value) - len(s.values[key])
	if _, known := s.values[key]; !known {
		grown += len(key) + entryCost
	}
	if grown > s.limit {
		return fmt.Errorf("put %.40q: the job's store is full (%d keys, %d bytes)", key, len(s.values), s.bytes)
	}
	s.bytes = grown
	s.values[key] = value
	if w := s.waits[key]; w != nil {
		close(w.put)
		delete(s.waits, key)
	}
	return nil
}

// Get returns the value under key. If there is none yet it waits for one until
// ctx ends; found is false then.
func (s *Store) Get(ctx context.Context, key string) (value []byte, found bool) {
	for {
		s.mu.Lock()
		value, found = s.values[key]
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
	for key, value := range s.values {
		if del(key) {
			s.bytes -= len(key) + entryCost + len(value)
			delete(s.values, key)
		}
	}
}

// forget ends one wait. A key for which no request waits any more is dropped.
func (s *Store) forget(key string, w *wait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.waiting--; w.waiting == 0 && s.waits[key] == w {
		delete(s.waits, key)
	}
}
