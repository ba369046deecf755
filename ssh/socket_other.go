//go:build !linux

package ssh

import (
	"net"
	"time"
)

// setUserTimeout does nothing on kernels without this option; keepalive finds a dead connection
// later.
func setUserTimeout(net.Conn, time.Duration) error { return nil }
