package pmi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"
)

// Store is the part of the job's store that PMI needs.
type Store interface {
	// Fence contributes a rank's value and waits for the values of all ranks.
	Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error)
	Put(key string, value []byte) error
	Get(ctx context.Context, key string, wait time.Duration) (value []byte, found bool, err error)
}

// Host serves the ranks of one host. It is safe for concurrent use.
type Host struct {
	Name     string // name of the job's key-value space: one word
	Size     int    // ranks in the job
	Mapping  string // PMI_process_mapping, or "" if unknown
	Programs map[int]int
	Store    Store
	// Aborted is called when a rank asks to end the job with an exit code.
	Aborted func(rank, code int)
	Entered func(rank int) // called when a rank calls MPI_Init; may be nil
	// Spawn starts the ranks that a rank asks for; nil: it is refused, as where it returns an
	// error.
	Spawn    func(ctx context.Context, rank int, s Spawn) error
	Universe int // limit of the job's ranks including spawned ones; 0: Size

	mu      sync.Mutex
	known   map[string]string // puts before the last barrier
	merged  int               // number of barriers whose puts are in known
	inside  map[int]bool      // ranks between init and finalize
	came    map[int]int       // number of barriers that each rank has reached
	serving map[int]bool      // ranks that have a connection

	attributes attributes // attributes of this host

	segments []string // shared-memory files that ranks have published
}

// Give makes values known to the ranks before they put any.
func (h *Host) Give(values map[string]string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.known = maps.Clone(values)
}

// Inside reports whether a rank is between init and finalize. A rank that ends there leaves
// the others waiting, whatever its exit code.
func (h *Host) Inside(rank int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.inside[rank]
}

func (h *Host) setInside(rank int, inside bool) {
	h.mu.Lock()
	if h.inside == nil {
		h.inside = map[int]bool{}
	}
	enters := inside && !h.inside[rank]
	h.inside[rank] = inside
	h.mu.Unlock()
	if enters && h.Entered != nil {
		h.Entered(rank)
	}
}

func (h *Host) get(key string) (string, bool) {
	if key == "PMI_process_mapping" {
		return h.Mapping, h.Mapping != ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	value, found := h.known[key]
	return value, found
}

// nextBarrier returns the 1-based number of the barrier that a rank reaches.
func (h *Host) nextBarrier(rank int) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.came == nil {
		h.came = map[int]int{}
	}
	h.came[rank]++
	return h.came[rank]
}

// barrier waits until all ranks have reached their n-th barrier, and merges what they have put.
func (h *Host) barrier(ctx context.Context, rank, n int, puts map[string]string) error {
	value, err := json.Marshal(puts)
	if err != nil {
		return err
	}
	values, err := h.Store.Fence(ctx, "pmi/"+strconv.Itoa(n), rank, value)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.merged >= n {
		return nil // another rank of this host has merged this barrier
	}
	h.merged = n
	if h.known == nil {
		h.known = map[string]string{}
	}
	for r, value := range values {
		var theirs map[string]string
		if err := json.Unmarshal(value, &theirs); err != nil {
			return fmt.Errorf("what rank %d has put: %w", r, err)
		}
		for key, value := range theirs {
			if !valueFits(key, value) { // another host may say anything
				return fmt.Errorf("what rank %d has put: no value of PMI", r)
			}
			h.known[key] = value
		}
	}
	return nil
}

// serviceKey returns the key of a published service. An empty value means not published.
func serviceKey(name string) string { return "pmi/service/" + name }

// publish publishes a service's port. It returns a word about the problem, or "".
func (h *Host) publish(ctx context.Context, a actPublish) (problem string) {
	switch port, err := h.lookup(ctx, a.service); {
	case err != nil:
		return word(err.Error())
	case port != "":
		return "key_already_present"
	}
	if err := h.put(ctx, a.service, a.port); err != nil {
		return word(err.Error())
	}
	return ""
}

// put stores a service's port and returns when ranks of all hosts see it: the store answers
// requests in order.
func (h *Host) put(ctx context.Context, service, port string) error {
	if err := h.Store.Put(serviceKey(service), []byte(port)); err != nil {
		return err
	}
	_, err := h.lookup(ctx, service)
	return err
}

func (h *Host) withdraw(ctx context.Context, service string) (problem string) {
	if port, err := h.lookup(ctx, service); err != nil || port == "" {
		return "service_not_found"
	}
	if err := h.put(ctx, service, ""); err != nil {
		return word(err.Error())
	}
	return ""
}

func (h *Host) lookup(ctx context.Context, service string) (port string, err error) {
	value, _, err := h.Store.Get(ctx, serviceKey(service), 0)
	if !serviceFits(service, string(value)) { // another host may say anything
		return "", err
	}
	return string(value), err
}

// take claims a rank for one connection; a rank has at most one.
func (h *Host) take(rank int) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ours := h.Programs[rank]; !ours {
		return fmt.Errorf("rank %d is not of this host", rank)
	}
	if h.serving[rank] {
		return fmt.Errorf("rank %d has a connection already", rank)
	}
	if h.serving == nil {
		h.serving = map[int]bool{}
	}
	h.serving[rank] = true
	return nil
}

func (h *Host) release(rank int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.serving, rank)
}
