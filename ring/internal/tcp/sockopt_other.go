//go:build !linux

package tcp

import (
	"syscall"
	"time"
)

// setUserTimeout does nothing where the option does not exist: there keepalive
// alone finds a dead network.
func setUserTimeout(syscall.RawConn, time.Duration) error { return nil }
