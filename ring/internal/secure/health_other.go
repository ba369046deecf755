//go:build !linux

package secure

// Silent never fails: here the kernel alone ends dead connections.
func (c *Conn) Silent() error { return nil }

// Unsent is unknown here.
func (c *Conn) Unsent() int { return 0 }
