package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Connection is the TCP connection that sshd has to the launcher's side. Every process in sshd's
// network namespace may ask the kernel about it (sock_diag).
type Connection struct {
	fd     int
	local  netip.AddrPort
	remote netip.AddrPort
	cookie [8]byte // names the socket: ports are used again
}

const (
	diagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	diagInfo     = 2  // INET_DIAG_INFO
	diagSize     = 72 // of struct inet_diag_msg
	stateListen  = 10 // TCP_LISTEN
)

// Open finds the connection that SSH_CONNECTION names: "client-ip client-port server-ip
// server-port".
func Open(sshConnection string) (*Connection, error) {
	words := strings.Fields(sshConnection)
	if len(words) != 4 {
		return nil, errors.New("no SSH_CONNECTION")
	}
	remote, err := addrPort(words[0], words[1])
	if err != nil {
		return nil, err
	}
	local, err := addrPort(words[2], words[3])
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel about connections: %w", err)
	}
	c := &Connection{fd: fd, local: local, remote: remote}
	for i := range c.cookie {
		c.cookie[i] = 0xff // any
	}
	if _, err := c.Read(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func addrPort(ip, port string) (netip.AddrPort, error) {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}

func (c *Connection) Close() { unix.Close(c.fd) }

// Read asks the kernel. An error means that the connection does not exist, or no longer.
func (c *Connection) Read() (Reading, error) {
	if err := unix.Sendto(c.fd, c.request(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return Reading{}, fmt.Errorf("ask the kernel about a connection: %w", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(c.fd, answer, unix.MSG_DONTWAIT) // Sendto has waited for the answer
	if err != nil {
		return Reading{}, fmt.Errorf("ask the kernel about a connection: %w", err)
	}
	return c.parse(answer[:n])
}

// request is a struct nlmsghdr and a struct inet_diag_req_v2.
func (c *Connection) request() []byte {
	family := byte(unix.AF_INET)
	if c.local.Addr().Is6() {
		family = unix.AF_INET6
	}
	order := binary.NativeEndian
	b := order.AppendUint32(nil, unix.SizeofNlMsghdr+56)
	b = order.AppendUint16(b, diagByFamily)
	b = order.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence and port: one request at a time
	b = append(b, family, unix.IPPROTO_TCP, 1<<(diagInfo-1), 0)
	b = order.AppendUint32(b, ^uint32(0)) // states
	b = binary.BigEndian.AppendUint16(b, c.local.Port())
	b = binary.BigEndian.AppendUint16(b, c.remote.Port())
	for _, end := range []netip.AddrPort{c.local, c.remote} {
		var field [16]byte
		copy(field[:], end.Addr().AsSlice())
		b = append(b, field[:]...)
	}
	b = order.AppendUint32(b, zoneIndex(c.local.Addr(), c.remote.Addr()))
	return append(b, c.cookie[:]...)
}

// zoneIndex is the interface of link-local addresses.
func zoneIndex(addrs ...netip.Addr) uint32 {
	for _, a := range addrs {
		if ifi, err := net.InterfaceByName(a.Zone()); err == nil {
			return uint32(ifi.Index)
		}
	}
	return 0
}

// parse reads the kernel's answer: a struct inet_diag_msg with a struct tcp_info behind it.
func (c *Connection) parse(b []byte) (Reading, error) {
	order := binary.NativeEndian
	if len(b) < unix.SizeofNlMsghdr+4 {
		return Reading{}, errors.New("the kernel's answer about a connection is cut short")
	}
	if order.Uint16(b[4:]) == unix.NLMSG_ERROR {
		errno := unix.Errno(-int32(order.Uint32(b[unix.SizeofNlMsghdr:])))
		return Reading{}, fmt.Errorf("the kernel knows no connection from %v to %v: %w", c.remote, c.local, errno)
	}
	b = b[unix.SizeofNlMsghdr:]
	if len(b) < diagSize || b[1] == stateListen { // without a connection the kernel describes the listener
		return Reading{}, fmt.Errorf("the kernel knows no connection from %v to %v", c.remote, c.local)
	}
	copy(c.cookie[:], b[44:52])
	for b = b[diagSize:]; len(b) >= 4; {
		size := int(order.Uint16(b))
		kind := order.Uint16(b[2:])
		if size < 4 || size > len(b) {
			break
		}
		if kind == diagInfo {
			return readingOf(b[4:size]), nil
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return Reading{}, errors.New("the kernel's answer has nothing about the connection")
}

// readingOf reads a struct tcp_info, which is shorter in older kernels.
func readingOf(text []byte) Reading {
	info := unix.TCPInfo{Snd_wnd: 1}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&info)), unix.SizeofTCPInfo), text)
	return Reading{
		Acked:    info.Bytes_acked,
		Received: info.Bytes_received,
		Unacked:  int(info.Unacked),
		Retries:  int(info.Retransmits),
		Probes:   int(info.Probes),
		Full:     info.Snd_wnd == 0,
		Heard:    time.Duration(info.Last_ack_recv) * time.Millisecond,
	}
}
