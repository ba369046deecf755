package spawn

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/gorun/gorun/internal/kv"
)

// World is the ranks of one request. Ranks are their numbers for the launcher, by their rank in the world. It is safe for concurrent use.
type World struct {
	Request
	Number int // 1-based
	Ranks  []int

	mu     sync.Mutex
	gather *kv.Fences
	waits  map[string]*wait
	came   map[int]bool // ranks of the world that have called MPI_Init
}

type wait struct {
	done   chan struct{}
	values [][]byte
}

func newWorld(number int, r Request) *World {
	return &World{Request: r, Number: number, gather: kv.NewFences(r.Count()), waits: map[string]*wait{}, came: map[int]bool{}}
}

// Name is that of the world in a job.
func (w *World) Name(job string) string { return job + "_" + strconv.Itoa(w.Number) }

// RankOf is the rank in the world of a rank with a number, or -1.
func (w *World) RankOf(number int) int { return slices.Index(w.Ranks, number) }

// ProgramOf is the index of the program that a rank of the world runs.
func (w *World) ProgramOf(rank int) int {
	for i, p := range w.Programs {
		if rank -= p.Ranks; rank < 0 {
			return i
		}
	}
	return len(w.Programs) - 1
}

// Enter records that a rank of the world has called MPI_Init.
func (w *World) Enter(rank int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.came[rank] = true
}

// Came reports whether a rank of the world has called MPI_Init, where the rank that asked for it waits for it.
func (w *World) Came(rank int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.came[rank]
}

// Fence contributes a rank's value and waits for the values of all ranks of the world.
func (w *World) Fence(ctx context.Context, name string, rank int, value []byte) ([][]byte, error) {
	w.mu.Lock()
	open := w.waits[name]
	if open == nil {
		open = &wait{done: make(chan struct{})}
		w.waits[name] = open
	}
	all, err := w.gather.Add(name, map[int][]byte{rank: value})
	if all != nil {
		open.values = make([][]byte, len(w.Ranks))
		for rank, value := range all {
			open.values[rank] = value
		}
		delete(w.waits, name)
		close(open.done)
	}
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-open.done:
		return open.values, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
