package kv

import (
	"context"
	"path"
	"strconv"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
)

// endless is a store in which a hostile host has put parts of a value without end: it empties each
// when it is read, and so stays within the store's bound.
type endless struct {
	store *Store
	part  []byte
	read  int
}

func (e *endless) Put(key string, value []byte) error { return e.store.Put("hostile", key, value) }

func (e *endless) Get(ctx context.Context, key string, _ time.Duration) ([]byte, bool, error) {
	dir, number := path.Split(key)
	n, err := strconv.Atoi(number)
	if err == nil {
		err = e.Put(key, e.part)
	}
	if err == nil && n > 0 {
		err = e.Put(dir+strconv.Itoa(n-1), nil)
	}
	if err != nil || e.read > 1000*MaxValue {
		return nil, false, err
	}
	value, found := e.store.Get(ctx, key)
	e.read += len(value)
	return value, found, nil
}

// Values of another host take bounded memory, however often the host frees its room in the store,
// and those of this host do not use up its share of the store.
func TestExchangedValuesAreBounded(t *testing.T) {
	part := make([]byte, MaxValue)
	part[0] = 1 // another follows
	e := &endless{store: NewStore(), part: part}
	exchange := func(own int) error {
		_, err := Exchange(t.Context(), e, strconv.Itoa, map[int][]byte{0: make([]byte, own)}, []int{0, 1, 2})
		return err
	}
	check.Error(exchange(maxExchanged)).Says(t, "exchanged values of more than")
	check.That(t, e.read <= maxExchanged+MaxValue, "%d bytes were read", e.read)
	e = &endless{store: NewStore(), part: part}
	check.Error(exchange(maxExchanged+1)).Says(t, "exchanged values of more than")
	check.That(t, e.read == 0 && e.store.bytes == 0, "%d bytes were read, %d put", e.read, e.store.bytes)
}
