//go:build amd64 && !race

package release

// Store sets *p to v after all stores before it: the processor keeps the order of stores, and so
// does the compiler.
func Store(p *uint64, v uint64) { *p = v }

// Clear sets *p to 0 before all stores after it.
func Clear(p *uint64) { *p = 0 }
