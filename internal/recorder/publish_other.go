//go:build !amd64

package recorder

import "sync/atomic"

// publish stores v after all stores before it.
func publish(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
