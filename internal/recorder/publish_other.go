//go:build !amd64

package recorder

import "sync/atomic"

// publish stores v after all stores before it.
func publish(p *uint64, v uint64) { atomic.StoreUint64(p, v) }

// retract stores 0 before all stores after it. An atomic store alone comes after those before it only; the load comes after that store, and
// before all that follows.
func retract(p *uint64) {
	atomic.StoreUint64(p, 0)
	atomic.LoadUint64(p)
}
