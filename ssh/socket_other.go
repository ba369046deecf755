//go:build !linux

package ssh

import (
	"net"
	"time"
)

// setUserTimeout does nothing where the kernel has no such bound; keepalive
// probes find a dead connection later.
func setUserTimeout(net.Conn, time.Duration) error { return nil }
