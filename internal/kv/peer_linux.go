package kv

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"

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
	uid, err = socketUID(unmapped(peer), unmapped(own))
	if err == nil || errors.Is(err, ErrPeerUnknown) {
		return uid, err
	}
	return tableUID(unmapped(peer), unmapped(own))
}

// tableUID reads the kernel's tables of all connections, which takes longer and needs no netlink.
func tableUID(local, remote netip.AddrPort) (uid uint32, err error) {
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		text, err := os.ReadFile(table)
		if errors.Is(err, fs.ErrNotExist) {
			continue // no IPv6
		}
		if err != nil {
			return 0, fmt.Errorf("look up whose a socket is: %w", err)
		}
		if uid, found := parseTable(string(text), local, remote); found {
			return uid, nil
		}
	}
	return 0, ErrPeerUnknown
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
