package services

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
)

// World is the ranks of one request: to MPI they are ranks 0 to n-1 of n. The launcher places them
// and gives them numbers. It is safe for concurrent use.
type World struct {
	wire.World
	Here []int // ranks on this host, ascending

	mu     sync.Mutex
	gather *kv.Fences // fences of the ranks here
	waits  map[string]*wait
	came   map[int]bool // ranks here that have called MPI_Init
}

type wait struct {
	done   chan struct{}
	values [][]byte
	err    error
}

func newWorld(described wire.World, here func(number int) bool) *World {
	w := &World{
		World: described,
		waits: map[string]*wait{},
		came:  map[int]bool{},
	}
	for rank, number := range described.Numbers {
		if here(number) {
			w.Here = append(w.Here, rank)
		}
	}
	w.gather = kv.NewFences(len(w.Here))
	return w
}

// Name is that of the world in a job.
func (w *World) Name(job string) string { return job + "_" + strconv.Itoa(w.Number) }

// RankOf is the rank in the world of a rank with a number, or -1.
func (w *World) RankOf(number int) int { return slices.Index(w.Numbers, number) }

// ProgramOf is the index of the program that a rank of the world runs.
func (w *World) ProgramOf(rank int) int {
	for i, p := range w.Programs {
		if rank -= p.Ranks; rank < 0 {
			return i
		}
	}
	return len(w.Programs) - 1
}

// Shares are the numbers of ranks of all programs.
func (w *World) Shares() (all []int) {
	for _, p := range w.Programs {
		all = append(all, p.Ranks)
	}
	return all
}

// Nodes are the hosts of all ranks, by rank, counted from 0 in the order of their first ranks.
func (w *World) Nodes() (nodes []int) {
	seen := map[int]int{}
	for _, host := range w.HostOf {
		if _, known := seen[host]; !known {
			seen[host] = len(seen)
		}
		nodes = append(nodes, seen[host])
	}
	return nodes
}

// Enter records that a rank of the world has called MPI_Init.
func (w *World) Enter(rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came[rank] = true
}

// Came reports whether a rank of the world has called MPI_Init.
func (w *World) Came(rank int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.came[rank]
}

// Fence contributes the value of a rank that is here, and waits for the values of all ranks of the
// world. No other fence of the world has the name.
func (w *World) Fence(ctx context.Context, keys kv.Keys, name string, rank int, value []byte) ([][]byte, error) {
	w.mu.Lock()
	open := w.waits[name]
	if open == nil {
		open = &wait{done: make(chan struct{})}
		w.waits[name] = open
	}
	all, err := w.gather.Add(name, map[int][]byte{rank: value})
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if all != nil {
		members := make([]int, len(w.Numbers))
		for rank := range members {
			members[rank] = rank
		}
		key := func(rank int) string { return kv.WorldKey(w.HostOf[rank], w.Number, name, rank) }
		open.values, open.err = kv.Exchange(ctx, keys, key, all, members)
		w.mu.Lock()
		delete(w.waits, name)
		w.mu.Unlock()
		close(open.done)
	}
	select {
	case <-open.done:
		return open.values, open.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
