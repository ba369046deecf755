//go:build amd64 && !race

package release

// Store sets *p to v after all stores before it: the processor keeps the order of stores, and so does the compiler.
func Store(p *uint64, v uint64) { *p = v }
