package fake

import (
	"bytes"
	"context"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
)

// Store is the store and the fences of a whole job in one process.
type Store struct {
	store *kv.Store
	size  int // ranks

	mu     sync.Mutex
	fences *kv.Fences
	open   map[string]*meeting
}

// meeting is a fence that has begun.
type meeting struct {
	values [][]byte
	done   chan struct{}
}

// NewStore returns an empty store of a job.
func NewStore(ranks int) *Store {
	return &Store{
		store:  kv.NewStore(),
		size:   ranks,
		fences: kv.NewFences(ranks),
		open:   map[string]*meeting{},
	}
}

// Put stores a copy of a value.
func (s *Store) Put(key string, value []byte) error {
	return s.store.Put("host", key, bytes.Clone(value))
}

// HostStore is the store as one host uses it.
type HostStore struct {
	*Store
	index int
}

// Of returns the store as a host uses it.
func (s *Store) Of(host int) HostStore { return HostStore{s, host} }

// Put stores a copy of a value, by the rules of hosts.
func (s HostStore) Put(key string, value []byte) error {
	return s.store.PutBy(kv.Host{Name: "host", Index: s.index}, key, bytes.Clone(value))
}

// Get waits for the key at most wait, and while ctx lasts.
func (s *Store) Get(ctx context.Context, key string, wait time.Duration) (value []byte, found bool, err error) {
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	value, found = s.store.Get(within, key)
	if !found {
		err = ctx.Err()
	}
	return value, found, err
}

// Fence contributes a rank's value and waits for the values of all ranks.
func (s *Store) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	return s.FenceAll(ctx, name, map[int][]byte{rank: value})
}

// FenceAll contributes values of several ranks.
func (s *Store) FenceAll(ctx context.Context, name string, values map[int][]byte) ([][]byte, error) {
	m, err := s.add(name, values)
	if err != nil {
		return nil, err
	}
	select {
	case <-m.done:
		return m.values, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *Store) add(name string, values map[int][]byte) (*meeting, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.open[name]
	if m == nil {
		m = &meeting{values: make([][]byte, s.size), done: make(chan struct{})}
		s.open[name] = m
	}
	copies := map[int][]byte{}
	for rank, value := range values {
		copies[rank] = bytes.Clone(value)
	}
	all, err := s.fences.Add(name, copies)
	for rank, value := range all {
		m.values[rank] = value
	}
	if all != nil {
		delete(s.open, name)
		close(m.done)
	}
	return m, err
}
