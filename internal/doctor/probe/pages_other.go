//go:build !linux

package probe

// inLargePages does nothing here.
func inLargePages([]byte) {}
