package admit

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/sockets"
)

const tellsPeers = true // whether the kernel says whose a connection is

// PeerUID returns the user that opened the other end of conn, a TCP connection within this machine.
// The kernel reports it, independently of the peer. The error is ErrPeerUnknown if the peer has
// closed the connection.
func PeerUID(conn net.Conn) (uid uint32, err error) {
	var once Peers
	defer once.Close()
	return once.UID(conn)
}

// Peers is PeerUID for frequent use: it keeps its socket to the kernel. It is safe for concurrent
// use.
type Peers struct {
	mu     sync.Mutex
	kernel *sockets.Kernel // nil: not open
}

// Close closes the socket. Peers can be used again.
func (p *Peers) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
}

func (p *Peers) drop() {
	if p.kernel != nil {
		p.kernel.Close()
		p.kernel = nil
	}
}

// UID is PeerUID.
func (p *Peers) UID(conn net.Conn) (uid uint32, err error) {
	own, ok1 := conn.LocalAddr().(*net.TCPAddr)
	peer, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 {
		return 0, fmt.Errorf("ask who is at %v: not a TCP connection", conn.RemoteAddr())
	}
	if uid, err = p.addressUID(unmapped(peer), unmapped(own)); err != nil {
		return 0, err
	}
	// The peer may have reset the connection, and another user's socket may have taken its address
	// before the look-up. As long as conn is established, the only established socket at that
	// address is the other end of conn.
	switch alive, err := established(conn); {
	case err != nil:
		return 0, fmt.Errorf("ask for the state of the connection with %v: %w", peer, err)
	case !alive:
		return 0, ErrPeerUnknown
	}
	return uid, nil
}

// addressUID returns the owner of the established socket that is bound to local and connected to
// remote.
func (p *Peers) addressUID(local, remote netip.AddrPort) (uid uint32, err error) {
	uid, err = p.socketUID(local, remote)
	if err == nil || errors.Is(err, ErrPeerUnknown) {
		return uid, err
	}
	return tableUID(local, remote)
}

// established reports whether both ends of a TCP connection are open.
func established(conn net.Conn) (alive bool, err error) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false, errors.ErrUnsupported
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false, err
	}
	var info *unix.TCPInfo
	var failed error
	if err := raw.Control(func(fd uintptr) {
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil {
		return false, err
	}
	return failed == nil && sockets.State(info.State) == sockets.Established, failed
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
		for s := range sockets.Table(string(text)) {
			if s.Local == local && s.Remote == remote && isOpen(s) {
				return s.UID, nil
			}
		}
	}
	return 0, ErrPeerUnknown
}

// isOpen reports whether a process has a connected socket: the uid of a closed one reads as root's.
func isOpen(s sockets.Socket) bool { return s.State == sockets.Established && s.Inode != 0 }

func unmapped(a *net.TCPAddr) netip.AddrPort {
	at := a.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

func (p *Peers) socketUID(local, remote netip.AddrPort) (uid uint32, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kernel == nil {
		if p.kernel, err = sockets.Open(); err != nil {
			return 0, err
		}
	}
	s, err := p.kernel.Connection(local, remote, nil)
	switch {
	case errors.Is(err, sockets.ErrNone) || err == nil && !isOpen(s):
		return 0, ErrPeerUnknown
	case err != nil:
		p.drop() // a late answer would be to another request
		return 0, err
	}
	return s.UID, nil
}
