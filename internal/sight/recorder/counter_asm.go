//go:build amd64 || arm64

package recorder

const hasCounter = true

// readCounter returns the processor's time stamp counter.
func readCounter() uint64
