//go:build !linux

package bench

import "syscall"

// congestion leaves a socket as it is.
func congestion(bool) func(_, _ string, raw syscall.RawConn) error { return nil }
