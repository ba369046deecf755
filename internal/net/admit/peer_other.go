//go:build !linux

package admit

import (
	"errors"
	"net"
)

const tellsPeers = false

// PeerUID is known on Linux only.
func PeerUID(net.Conn) (uid uint32, err error) { return 0, errors.ErrUnsupported }

// Peers is known on Linux only.
type Peers struct{}

// Close does nothing.
func (*Peers) Close() {}

// UID is PeerUID.
func (*Peers) UID(net.Conn) (uid uint32, err error) { return 0, errors.ErrUnsupported }
