package kv

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// PeerUID is the user who opened the other end of conn, a TCP connection within this machine. The
// kernel reports it, independently of the peer. ErrPeerUnknown is for a peer that has closed the connection.
func PeerUID(conn net.Conn) (uid uint32, err error) {
	var once Peers
	defer once.Close()
	return once.UID(conn)
}

// Peers is PeerUID for frequent use: it keeps its socket to the kernel. It is safe for concurrent use.
type Peers struct {
	mu     sync.Mutex
	opened bool
	fd     int
}

// Close closes the socket. Peers can be used again.
func (p *Peers) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

func (p *Peers) drop() {
	if p.opened {
		unix.Close(p.fd)
		p.opened = false
	}
}

// UID is PeerUID.
func (p *Peers) UID(conn net.Conn) (uid uint32, err error) {
	own, ok1 := conn.LocalAddr().(*net.TCPAddr)
	peer, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 {
		return 0, fmt.Errorf("ask who is at %v: not a TCP connection", conn.RemoteAddr())
	}
	// The remote address of conn is the local one of the peer's socket.
	uid, err = p.socketUID(unmapped(peer), unmapped(own))
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

func (p *Peers) socketUID(local, remote netip.AddrPort) (uid uint32, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := make([]byte, 512)
	n, err := p.ask(diagRequest(local, remote), answer)
	if err != nil {
		p.drop() // a late answer would be to another request
		return 0, fmt.Errorf("ask the kernel whose a socket is: %w", err)
	}
	return parseDiag(answer[:n])
}

func (p *Peers) ask(request, answer []byte) (n int, err error) {
	if !p.opened {
		if p.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG); err != nil {
			return 0, err
		}
		p.opened = true
	}
	if err := unix.Sendto(p.fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	n, _, err = unix.Recvfrom(p.fd, answer, unix.MSG_DONTWAIT) // there already: the kernel answers within Sendto
	return n, err
}
