package kv

import (
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// PeerUID is the user who opened the other end of conn, a TCP connection within this machine. The
// kernel says so, whatever the peer sends. ErrPeerUnknown is for those who have gone.
func PeerUID(conn net.Conn) (uid uint32, err error) {
	own, ok1 := conn.LocalAddr().(*net.TCPAddr)
	peer, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 {
		return 0, fmt.Errorf("ask who is at %v: not a TCP connection", conn.RemoteAddr())
	}
	// What is remote to us is local to the peer's socket.
	return socketUID(unmapped(peer), unmapped(own))
}

func unmapped(a *net.TCPAddr) netip.AddrPort {
	at := a.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

func socketUID(local, remote netip.AddrPort) (uint32, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, fmt.Errorf("ask the kernel whose a socket is: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, diagRequest(local, remote), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, fmt.Errorf("ask the kernel whose a socket is: %w", err)
	}
	answer := make([]byte, 512)
	n, _, err := unix.Recvfrom(fd, answer, 0) // there already: the kernel answers within Sendto
	if err != nil {
		return 0, fmt.Errorf("ask the kernel whose a socket is: %w", err)
	}
	return parseDiag(answer[:n])
}
