//go:build !amd64 || race

package release

import "sync/atomic"

// Store sets *p to v after all stores before it.
func Store(p *uint64, v uint64) { atomic.StoreUint64(p, v) }
