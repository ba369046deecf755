package ring

import (
	"runtime"

	"github.com/gorun/gorun/ring/internal/algorithms"
)

// WithShards makes the shards that leaders exchange small, so that small vectors reach
// the code for many. Bytes is a multiple of 8.
func WithShards(bytes int) Option { return func(o *options) { o.shard = bytes } }

// Stop keeps the queue's goroutine from its next cycle, as if the rank were stopped.
func (q *Queue) Stop() (goOn func()) {
	q.mu.Lock()
	return q.mu.Unlock
}

// Cycling waits until the queue is idle, and keeps it from cycles until through is called.
func (q *Queue) Cycling() (through func()) {
	q.mu.Lock()
	for q.cycling {
		q.mu.Unlock()
		runtime.Gosched()
		q.mu.Lock()
	}
	q.cycling = true
	q.mu.Unlock()
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.cycling = false
		q.changed.Broadcast()
	}
}

// Cost is what the network between domains costs, in ps; nil if there is one domain.
func (c *Comm) Cost() *algorithms.Cost { return c.cost }
