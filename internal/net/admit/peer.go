package admit

import (
	"errors"
	"net"
	"os"
)

// ErrPeerUnknown means that the kernel has no established socket at the other end: it was closed,
// or is not on this machine.
var ErrPeerUnknown = errors.New("nobody on this machine has the other end of the connection open")

// Peer is who has the other end of a connection.
type Peer int

// Kinds of peers.
const (
	Own       Peer = iota // a process of this user or root
	Other                 // one of another user of this machine
	Elsewhere             // one of another machine, or none any more
	kinds     = 3
)

// PeerOf returns the kind of peer at the other end of conn, which may be one of [Pending.Listener].
// Each kind has bounds of its own. If the kernel does not name the peer's user, all peers are Own.
func PeerOf(conn net.Conn) Peer {
	uid, err := PeerUID(inner(conn))
	switch {
	case errors.Is(err, ErrPeerUnknown):
		return Elsewhere
	case err != nil || IsOwn(uid):
		return Own
	}
	return Other
}

// IsTheUsers reports whether a process of this user or root has the other end of conn, which may be
// one of [Pending.Listener]. On systems that never say so, it is true.
func IsTheUsers(conn net.Conn) bool {
	uid, err := PeerUID(inner(conn))
	return err == nil && IsOwn(uid) || !tellsPeers
}

// IsOwn reports whether a user is this process's, or root, which ranks in containers may be.
func IsOwn(uid uint32) bool { return uid == 0 || uid == uint32(os.Geteuid()) }
