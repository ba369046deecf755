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
)

// Store maps keys to values. Safe for concurrent use.
type Store struct {
	mu     sync.Mutex
	values map[string][]byte
	bytes  int
	waits  map[string]chan struct{} // closed when the key is put
}

// NewStore returns an empty Store.
func NewStore() *Store {
	return &Store{values: map[string][]byte{}, waits: map[string]chan struct{}{}}
}

// Put stores value under key, over any earlier one. The value is kept, not copied.
func (s *Store) Put(key string, value []byte) error {
	if len(key) > MaxKey || len(value) > MaxValue {
		return fmt.Errorf("put %.40q: key of %d bytes and value of %d, at most %d and %d allowed", key, len(key), len(value), MaxKey, MaxValue)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	grown := s.bytes + len(value) - len(s.values[key])
	if _, known := s.values[key]; !known {
		grown += len(key)
	}
	if grown > maxBytes {
		return fmt.Errorf("put %.40q: the job's store is full (%d bytes)", key, maxBytes)
	}
	s.bytes = grown
	s.values[key] = value
	if c := s.waits[key]; c != nil {
		close(c)
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
		c := s.waits[key]
		if !found && c == nil {
			c = make(chan struct{})
			s.waits[key] = c
		}
		s.mu.Unlock()
		if found {
			return value, true
		}
		select {
		case <-c:
		case <-ctx.Done():
			return nil, false
		}
	}
}
