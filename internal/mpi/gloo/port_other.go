//go:build !linux

package gloo

import "net"

// lean returns the listener; on Linux it is an optimization.
func lean(listener net.Listener) (net.Listener, error) { return listener, nil }
