//go:build amd64 || arm64

package shm

// pause tells the processor n times that this is a waiting loop.
//
//go:noescape
func pause(n uint32)
