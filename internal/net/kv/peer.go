package kv

import "errors"

// ErrPeerUnknown means that the kernel has no established socket at the other end: it was closed,
// or is not on this machine.
var ErrPeerUnknown = errors.New("nobody on this machine has the other end of the connection open")
