//go:build !amd64 || race

package release

import "sync/atomic"

// Store sets *p to v after all stores before it.
func Store(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// Clear sets *p to 0 before all stores after it. An atomic store alone comes after those before it
// only; the load comes after that store, and before all that follows.
func Clear(p *uint64) {
	atomic.StoreUint64(p, 0)
	atomic.LoadUint64(p)
}
