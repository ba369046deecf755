package sockets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	diagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	diagInfo     = 2  // INET_DIAG_INFO
	requestSize  = unix.SizeofNlMsghdr + 56
	messageSize  = 72 // size of struct inet_diag_msg
)

// ErrNone means that no connection has the ends.
var ErrNone = errors.New("the kernel knows no such connection")

// Kernel answers questions about the TCP sockets of its network namespace. Every user may ask. It
// is not safe for concurrent use.
type Kernel struct{ fd int }

// Open returns a Kernel, which the caller closes.
func Open() (*Kernel, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	return &Kernel{fd}, nil
}

// Close ends the questions.
func (k *Kernel) Close() { unix.Close(k.fd) }

// Connection returns the socket that is bound to local and connected to remote, or ErrNone. like is
// the same socket from before, nil for any: ports are used again.
func (k *Kernel) Connection(local, remote netip.AddrPort, like *Socket) (Socket, error) {
	cookie := [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff} // wildcard
	if like != nil {
		cookie = like.cookie
	}
	family := byte(unix.AF_INET)
	if local.Addr().Is6() {
		family = unix.AF_INET6
	}
	err := k.send(request(family, ^uint32(0), 0, local, remote, cookie))
	var all []Socket
	if err == nil {
		all, _, err = k.answer(4<<10, unix.MSG_DONTWAIT) // the kernel has answered within send
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return Socket{}, ErrNone
	case err != nil:
		return Socket{}, err
	case len(all) == 0 || all[0].State == Listen: // without a connection the kernel describes the listener
		return Socket{}, ErrNone
	}
	return all[0], nil
}

// Listeners returns the sockets that listen on a port, of any address.
func (k *Kernel) Listeners(port int) (all []Socket, err error) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		at := netip.AddrPortFrom(netip.Addr{}, uint16(port))
		err := k.send(request(family, 1<<Listen, unix.NLM_F_DUMP, at, netip.AddrPort{}, [8]byte{}))
		for more := true; more && err == nil; {
			var found []Socket
			found, more, err = k.answer(32<<10, 0)
			all = append(all, found...)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (k *Kernel) send(request []byte) error {
	if err := unix.Sendto(k.fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	return nil
}

func (k *Kernel) answer(size, flags int) (all []Socket, more bool, err error) {
	b := make([]byte, size)
	n, _, err := unix.Recvfrom(k.fd, b, flags)
	if err == nil {
		all, more, err = parse(b[:n])
	}
	if err != nil {
		return nil, false, fmt.Errorf("ask the kernel about sockets: %w", err)
	}
	return all, more, nil
}

// request is a struct nlmsghdr and a struct inet_diag_req_v2. A zero address or port is any.
func request(family byte, states uint32, flags uint16, local, remote netip.AddrPort, cookie [8]byte) []byte {
	order := binary.NativeEndian
	b := order.AppendUint32(make([]byte, 0, requestSize), requestSize)
	b = order.AppendUint16(b, diagByFamily)
	b = order.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = append(b, make([]byte, 8)...) // sequence and port: one request at a time
	b = append(b, family, unix.IPPROTO_TCP, 1<<(diagInfo-1), 0)
	b = order.AppendUint32(b, states)
	b = binary.BigEndian.AppendUint16(b, local.Port())
	b = binary.BigEndian.AppendUint16(b, remote.Port())
	for _, addr := range []netip.Addr{local.Addr(), remote.Addr()} {
		var field [16]byte
		copy(field[:], addr.AsSlice())
		b = append(b, field[:]...)
	}
	b = order.AppendUint32(b, zoneIndex(local.Addr(), remote.Addr()))
	return append(b, cookie[:]...)
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

// parse reads a part of an answer: sockets, and whether another part may follow. It is pure.
func parse(b []byte) (all []Socket, more bool, err error) {
	order := binary.NativeEndian
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(order.Uint32(b))
		kind := order.Uint16(b[4:])
		if size < unix.SizeofNlMsghdr || size > len(b) {
			break
		}
		message := b[unix.SizeofNlMsghdr:size]
		switch {
		case kind == unix.NLMSG_DONE:
			return all, false, nil
		case kind == unix.NLMSG_ERROR && len(message) >= 4:
			return nil, false, unix.Errno(-int32(order.Uint32(message)))
		case kind == diagByFamily && len(message) >= messageSize:
			s := Socket{State: State(message[1]), UID: order.Uint32(message[64:]), Inode: order.Uint32(message[68:])}
			copy(s.cookie[:], message[44:52])
			s.info = attribute(message[messageSize:], diagInfo)
			all = append(all, s)
		}
		b = b[min(len(b), (size+3)&^3):]
	}
	if len(b) > 0 {
		return nil, false, errors.New("the answer is cut short")
	}
	return all, true, nil
}

// attribute returns the struct rtattr of a kind, or nil.
func attribute(b []byte, kind uint16) []byte {
	order := binary.NativeEndian
	for len(b) >= 4 {
		size := int(order.Uint16(b))
		if size < 4 || size > len(b) {
			break
		}
		if order.Uint16(b[2:]) == kind {
			return b[4:size]
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return nil
}

// Info returns how a connection fares. known is false if the kernel did not say.
func (s *Socket) Info() (info unix.TCPInfo, known bool) {
	info.Snd_wnd = 1 // older kernels have a shorter struct, without the window
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&info)), unix.SizeofTCPInfo), s.info)
	return info, s.info != nil
}
