//go:build !linux

package secure

import "time"

// Silent never fails: here the kernel alone ends dead connections.
func (c *Conn) Silent() error { return nil }

// Unsent is unknown here.
func (c *Conn) Unsent() int { return 0 }

// Queued is unknown here.
func (c *Conn) Queued() int { return 0 }

// Look knows nothing here: the kernel alone ends dead connections.
func (c *Conn) Look() (stalled bool, trip time.Duration) { return false, 0 }

// Limit does nothing here.
func (c *Conn) Limit(int) error { return nil }
